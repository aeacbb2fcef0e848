"""A run as one ONNX graph, encoder included: raw columns in, class and probabilities out.

    inputs         one per feature column, by its name, shape (rows, 1): a number as double (NaN is
                   missing), a category as text (the empty text is missing)
    label          (rows,), text: the most probable class, the lower one on a tie
    probabilities  (rows, classes), double

Everything is computed in double precision, so that the results equal those of `fairsilo predict`
up to the order of a few additions. Operators are from opset 17 and ai.onnx.ml 3 (2022).
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo import __version__
from fairsilo.compute import jnp
from fairsilo.data import Encoder
from fairsilo.data.encoder import Scaling
from fairsilo.data.schema import Category, Number
from fairsilo.errors import FairSiloError
from fairsilo.predictor import Plain
from fairsilo.run.store import Saved

OPSETS = {"": 17, "ai.onnx.ml": 3}
IR_VERSION = 8
"""The file-format version released with these opsets."""
DOUBLE = 11
"""TensorProto.DOUBLE of the file format."""
LAYERED = ("lr", "mlp")
"""The models that are dense layers with ReLU between them."""


def to_onnx(saved: Saved) -> bytes:
    """The model of a run folder as the content of an .onnx file."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise FairSiloError(
            "ONNX export needs the package onnx: pip install 'fairsilo[export]'"
        ) from None
    plain = _only(saved)
    graph = _Graph(onnx.helper, set(saved.schema.columns))
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
    label = _answer(graph, probabilities, saved.schema.classes)
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
    if saved.description["model"] not in LAYERED:
        raise FairSiloError(
            f"ONNX export knows the models {' and '.join(LAYERED)} and not "
            f"{saved.description['model']!r}: use fairsilo.load in Python"
        )
    return first


class _Graph:
    """Collects nodes and constants; outputs get names that no column has."""

    def __init__(self, helper: Any, taken: set[str]) -> None:
        self.helper = helper
        self.taken = taken
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def free(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        names = itertools.chain([name], (f"{name}_{k}" for k in itertools.count(1)))
        found = next(one for one in names if one not in self.taken)
        self.taken.add(found)
        return found

    def constant(self, value: Any) -> str:
        """Add a constant (floats as double, integers as int64, texts as they are); its name."""
        from onnx import numpy_helper

        name = self.free("constant")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add an operator with one output; returns the output's name."""
        output = self.free(name or operator.lower())
        domain = "ai.onnx.ml" if operator == "LabelEncoder" else ""
        self.nodes.append(
            self.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes)
        )
        return output


def _encode(graph: _Graph, encoder: Encoder) -> str:
    """`Encoder.transform` as a graph: the encoded rows, (rows, features)."""
    scalings = iter(encoder.scalings)
    columns: list[str] = []
    for feature in encoder.schema.features:
        if isinstance(feature, Number):
            columns += _number(graph, feature.name, next(scalings))
        else:
            columns.append(_category(graph, feature))
    return graph.node("Concat", *columns, axis=1)


def _number(graph: _Graph, name: str, scaling: Scaling) -> list[str]:
    """A number standardised, 0 if missing, and the indicator of missing cells if it has one."""
    centred = graph.node("Sub", name, graph.constant(scaling.mean))
    z = graph.node("Div", centred, graph.constant(scaling.scale))
    missing = graph.node("IsNaN", z)
    columns = [graph.node("Where", missing, graph.constant(0.0), z)]
    if scaling.missing:
        columns.append(graph.node("Cast", missing, to=DOUBLE))
    return columns


def _category(graph: _Graph, feature: Category) -> str:
    """A category one-hot; an index past the last column gives zeros in every column."""
    size = len(feature.values)
    width = size + feature.missing + feature.other
    other = size + feature.missing if feature.other else width
    places = {"": size if feature.missing else other}
    places |= {value: k for k, value in enumerate(feature.values)}
    place = graph.node(
        "LabelEncoder",
        feature.name,
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=other,
    )
    off_on = graph.constant(np.array([0.0, 1.0], np.float32))
    hot = graph.node("OneHot", place, graph.constant(np.array([width])), off_on)
    return graph.node("Cast", graph.node("Flatten", hot, axis=1), to=DOUBLE)


def _apply(graph: _Graph, plain: Plain, x: str) -> str:
    """The dense layers with ReLU between them, and the probabilities of all classes."""
    params = plain.model.unravel(jnp.asarray(plain.theta))
    layers = [params] if isinstance(params, dict) else params
    for k, layer in enumerate(layers):
        if k:
            x = graph.node("Relu", x)
        product = graph.node("MatMul", x, graph.constant(np.asarray(layer["weight"])))
        x = graph.node("Add", product, graph.constant(np.asarray(layer["bias"])))
    if plain.model.outputs > 1:
        return graph.node("Softmax", x, name="probabilities", axis=1)
    p = graph.node("Sigmoid", x)
    rest = graph.node("Sub", graph.constant(1.0), p)
    return graph.node("Concat", rest, p, name="probabilities", axis=1)


def _answer(graph: _Graph, probabilities: str, classes: Sequence[str]) -> str:
    """The name of the most probable class."""
    best = graph.node("ArgMax", probabilities, axis=1, keepdims=0)
    names = graph.constant(np.array(classes, dtype=object))
    return graph.node("Gather", names, best, name="label")


def _properties(saved: Saved) -> dict[str, str]:
    """The metadata of the file, as text."""
    description = saved.description
    return {
        "fairsilo": __version__,
        "method": str(description.get("method")),
        "epsilon": json.dumps(description.get("epsilon")),
        "constraints": json.dumps(description.get("constraints")),
        "classes": json.dumps(saved.schema.classes),
        "missing": "NaN in a number, the empty text in a category",
    }
