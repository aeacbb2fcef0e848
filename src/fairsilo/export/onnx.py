"""A run as one ONNX graph, encoder included: raw columns in, class and probabilities out.

    inputs         one per feature column, by its name, shape (rows, 1): a number as double (NaN is
                   missing), a date as days since 1970-01-01, a category as text (the empty text
                   is missing)
    label          (rows,), text: the most probable class, the lower one on a tie
    probabilities  (rows, classes), double

Everything is computed in double precision, so that the results equal those of `fairsilo predict`
up to the order of a few additions. Operators are from opset 17 and ai.onnx.ml 3 (2022).
"""

import json
from collections.abc import Sequence

import numpy as np

from fairsilo import __version__
from fairsilo.data import Encoder
from fairsilo.data.encoder import Scaling
from fairsilo.data.hot import width_of
from fairsilo.data.schema import Category, Date, Number
from fairsilo.errors import FairSiloError
from fairsilo.export.blocks import category_place, in_steps, one_hot
from fairsilo.export.graph import DOUBLE, INT64, Graph
from fairsilo.export.jaxpr import scores
from fairsilo.extras import install
from fairsilo.predictor import Plain
from fairsilo.predictor.base import HALF
from fairsilo.run.store import Saved

OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8
"""The file-format version released with these opsets."""


def to_onnx(saved: Saved) -> bytes:
    """The model of a run as the content of an .onnx file."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise FairSiloError(f"ONNX export needs the package onnx: {install('export')}") from None
    plain = _only(saved)
    graph = Graph(onnx.helper, set(saved.schema.columns))
    encoded = _encode(graph, saved.encoder)
    probabilities = _apply(graph, plain, encoded)
    helper, types = onnx.helper, onnx.TensorProto
    inputs = [
        helper.make_tensor_value_info(
            feature.name,
            types.DOUBLE if isinstance(feature, Number) else types.STRING,
            ["rows", 1],
        )
        for feature in saved.schema.features
    ]
    label = _answer(graph, probabilities, saved.schema.classes, plain.cut)
    classes = len(saved.schema.classes)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "fairsilo",
            inputs,
            [
                helper.make_tensor_value_info(label, types.STRING, ["rows"]),
                helper.make_tensor_value_info(probabilities, types.DOUBLE, ["rows", classes]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid(domain, n) for domain, n in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="fairsilo",
        producer_version=__version__,
    )
    helper.set_model_props(model, _properties(saved))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _only(saved: Saved) -> Plain:
    """The run's single deterministic model; other runs cannot be exported."""
    first = saved.predictors[0]
    method = saved.description.get("method")
    if not isinstance(first, Plain):
        raise FairSiloError(
            f"method {method!r} draws its answers at random, which ONNX cannot repeat: use "
            "fairsilo.load in Python, or train with `method` fedfair"
        )
    if len(saved.predictors) > 1:
        raise FairSiloError(
            f"method {method!r} has one model per client and ONNX export takes one: use "
            "fairsilo.load in Python, or train with `method` fedfair"
        )
    return first


def _encode(graph: Graph, encoder: Encoder) -> str:
    """`Encoder.transform` as a graph: the encoded rows, (rows, features)."""
    if encoder.binned is not None:
        return in_steps(graph, encoder.schema, encoder.binned)
    scalings = iter(encoder.scalings)
    columns: list[str] = []
    for feature in encoder.schema.features:
        if isinstance(feature, Number):
            columns += _number(graph, feature.name, next(scalings))
        else:
            columns.append(_category(graph, feature))
    return graph.node("Concat", *columns, axis=1)


def _number(graph: Graph, name: str, scaling: Scaling) -> list[str]:
    """A number standardised, 0 if missing, and the indicator of missing cells if it has one."""
    centred = graph.node("Sub", name, graph.constant(scaling.mean))
    z = graph.node("Div", centred, graph.constant(scaling.scale))
    missing = graph.node("IsNaN", z)
    columns = [graph.node("Where", missing, graph.constant(0.0), z)]
    if scaling.missing:
        columns.append(graph.node("Cast", missing, to=DOUBLE))
    return columns


def _category(graph: Graph, feature: Category) -> str:
    """A category one-hot."""
    width = width_of(feature)
    return one_hot(graph, category_place(graph, feature, range(width + 1)), width)


def _apply(graph: Graph, plain: Plain, x: str) -> str:
    """The model's operations, and the probabilities of all classes."""
    x = scores(graph, plain.model, plain.theta, x)
    if plain.model.outputs > 1:
        return graph.node("Softmax", x, name="probabilities", axis=1)
    p = graph.node("Sigmoid", x)
    rest = graph.node("Sub", graph.constant(1.0), p)
    return graph.node("Concat", rest, p, name="probabilities", axis=1)


def _answer(graph: Graph, probabilities: str, classes: Sequence[str], cut: float) -> str:
    """The name of the most probable class, or of two the second from a probability on."""
    if cut == HALF:
        best = graph.node("ArgMax", probabilities, axis=1, keepdims=0)
    else:
        second = graph.node("Gather", probabilities, graph.constant(np.int64(1)), axis=1)
        above = graph.node("GreaterOrEqual", second, graph.constant(cut))
        best = graph.node("Cast", above, to=INT64)
    names = graph.constant(np.array(classes, dtype=object))
    return graph.node("Gather", names, best, name="label")


def _properties(saved: Saved) -> dict[str, str]:
    """The metadata of the file, as text."""
    description = saved.description
    dates = {one.name: one.format for one in saved.schema.features if isinstance(one, Date)}
    return {
        "fairsilo": __version__,
        "method": str(description.get("method")),
        **{
            key: json.dumps(description[key])
            for key in ("epsilon", "constraints")
            if key in description
        },
        "classes": json.dumps(saved.schema.classes),
        "missing": "NaN in a number, the empty text in a category",
        # Inputs in days since 1970-01-01, with how the table has them written.
        **({"dates": json.dumps(dates)} if dates else {}),
    }
