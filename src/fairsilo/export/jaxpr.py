"""A model's scores as ONNX nodes, from the operations that JAX traces in it.

The model is traced for any number of rows, which JAX writes as a symbol, so that the graph takes
any number, too. What does not depend on the rows is computed now and becomes a constant. Every
other operation is looked up: in SAME, whose operations have the meaning of an ONNX operator; in
MADE, whose operations take a few; or it is refused by its name.
"""

import string
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from jax import export
from jax.extend.core import Literal

from fairsilo.arrays import Floats
from fairsilo.compute import jax, jnp
from fairsilo.errors import FairSiloError
from fairsilo.export.graph import Graph
from fairsilo.model import Model

INLINED = {
    "jit": "jaxpr", "pjit": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}  # fmt: skip
"""Operations that only call a function, and where they have it."""
UNCHANGED = ("copy", "copy_p", "stop_gradient", "name")
"""Operations that return what they are given."""
SAME = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "max": "Max",
    "min": "Min", "exp": "Exp", "log": "Log", "tanh": "Tanh", "logistic": "Sigmoid",
    "sqrt": "Sqrt", "pow": "Pow", "abs": "Abs", "sign": "Sign", "sin": "Sin", "cos": "Cos",
    "floor": "Floor", "ceil": "Ceil", "eq": "Equal", "lt": "Less", "le": "LessOrEqual",
    "gt": "Greater", "ge": "GreaterOrEqual",
}  # fmt: skip


def scores(graph: Graph, model: Model, theta: Floats, x: str) -> str:
    """Add the model's operations on the rows named x, (rows, features); the name of its scores."""
    params = model.unravel(jnp.asarray(theta))
    (rows,) = export.symbolic_shape("rows")
    table: Any = jax.ShapeDtypeStruct((rows, model.features), jnp.float64)  # type: ignore[no-untyped-call]
    try:
        traced = jax.make_jaxpr(lambda x: model.apply(params, x))(table)
    except Exception as error:
        raise FairSiloError(
            "ONNX export needs a model that treats any number of rows alike, and "
            f"{model.name!r} does not ({str(error).splitlines()[0]}): use fairsilo.load in Python"
        ) from error
    nodes = _Nodes(graph, x, rows)
    (result,) = nodes.follow(traced.jaxpr, traced.consts, [x])
    return nodes.cast(nodes.named(result), np.float64)


def _refused(name: str, which: str = "") -> FairSiloError:
    return FairSiloError(
        f"the model uses `{name}`{which}, for which there is no ONNX export: write it with other "
        "operations, or use fairsilo.load in Python"
    )


def _fixed(size: Any) -> bool:
    """Whether a size does not depend on the number of rows."""
    return isinstance(size, int | np.integer)


class _Nodes:
    """Turns equations into nodes. A value is the name of an output, or an array if constant."""

    def __init__(self, graph: Graph, x: str, rows: Any) -> None:
        self.node, self.graph, self.x, self.rows = graph.node, graph, x, rows

    def follow(self, jaxpr: Any, constants: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The results of a traced function on the given values."""
        known = dict(zip(jaxpr.constvars, constants, strict=True))
        known.update(zip(jaxpr.invars, inputs, strict=True))

        def value(atom: Any) -> Any:
            kind = atom.aval.dtype
            return np.asarray(atom.val, kind) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            results = self._results(equation, [value(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def _results(self, equation: Any, values: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if name in INLINED:
            inner = params[INLINED[name]]
            return self.follow(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), values)
        if name in UNCHANGED:
            return values
        if name == "dim_as_value":
            raise FairSiloError(
                "the model computes with the number of rows, which ONNX export does not take: let "
                "the scores of a row depend on that row only, or use fairsilo.load in Python"
            )
        fixed = all(_fixed(size) for one in equation.outvars for size in one.aval.shape)
        if fixed and not any(isinstance(one, str) for one in values):
            done = equation.primitive.bind(*values, **params)
            return list(done) if equation.primitive.multiple_results else [done]
        if name == "gather" and not isinstance(values[1], str):
            return [_gather(self, equation, self.named(values[0]), np.asarray(values[1]))]
        inputs = [self.named(one) for one in values]
        if name in SAME:
            return [self.node(SAME[name], *inputs)]
        if name not in MADE:
            raise _refused(name)
        made = MADE[name](self, equation, *inputs)
        return made if isinstance(made, list) else [made]

    def named(self, value: Any) -> str:
        """The name of a value; an array becomes a constant of the graph."""
        return value if isinstance(value, str) else self.graph.constant(np.asarray(value))

    def ints(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self.graph.constant(np.array(values, np.int64))

    def like(self, equation: Any, value: float) -> str:
        """A constant of the type of the equation's first input."""
        return self.graph.constant(np.asarray(value, equation.invars[0].aval.dtype))

    def cast(self, a: str, dtype: Any) -> str:
        """As numbers of another type."""
        return self.node("Cast", a, to=self.graph.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def shape(self, equation: Any, sizes: Sequence[Any]) -> str:
        """Sizes as a list; the number of rows is that of x."""
        if all(map(_fixed, sizes)):
            return self.ints(*sizes)
        if any(not _fixed(size) and size != self.rows for size in sizes):
            raise _refused(equation.primitive.name, " with several sizes for each row")
        rows = self.node("Shape", self.x, start=0, end=1)
        each = [self.ints(size) if _fixed(size) else rows for size in sizes]
        return self.node("Concat", *each, axis=0)

    def cut(self, a: str, axes: Sequence[int], start: Sequence[int], end: Sequence[int]) -> str:
        """From start up to end along each of the axes."""
        return self.node("Slice", a, self.ints(*start), self.ints(*end), self.ints(*axes))


def _erf(to: _Nodes, equation: Any, a: str) -> str:
    """In single precision: onnxruntime has no other."""
    single = to.node("Erf", to.cast(a, np.float32))
    return to.cast(single, equation.invars[0].aval.dtype)


def _logical(operator: str) -> Callable[..., str]:
    def made(to: _Nodes, equation: Any, *inputs: str) -> str:
        if equation.outvars[0].aval.dtype != bool:
            raise _refused(equation.primitive.name, " on whole numbers")
        return to.node(operator, *inputs)

    return made


def _select(to: _Nodes, equation: Any, which: str, *cases: str) -> str:
    if equation.invars[0].aval.dtype != bool:
        raise _refused("select_n", " with more than two cases")
    return to.node("Where", which, cases[1], cases[0])


def _dot(to: _Nodes, equation: Any, a: str, b: str) -> str:
    """The product of two matrices, or for other axes Einstein's sum.

    No MatMul: onnxruntime merges it with a factor beside it, which it rounds to single precision,
    and older versions cannot load it beside a transposed matrix of doubles. The axes are put in
    order before the sum, because its own way of doing that crashes where there are no rows.
    """
    inner, batch = equation.params["dimension_numbers"]
    dims = [one.aval.ndim for one in equation.invars]
    if dims == [2, 2] and not batch[0] and (*inner[0], *inner[1]) == (1, 0):
        return to.node("Gemm", a, b)
    letters = iter(string.ascii_letters)
    first, last = (list(islice(letters, len(axes[0]))) for axes in (batch, inner))
    inputs, terms, result = [], [], [*first]
    for k, name in enumerate((a, b)):
        own = [axis for axis in range(dims[k]) if axis not in (*batch[k], *inner[k])]
        order, named = [*batch[k], *own, *inner[k]], list(islice(letters, len(own)))
        moved = order != sorted(order)
        inputs.append(to.node("Transpose", name, perm=order) if moved else name)
        terms.append("".join([*first, *named, *last]))
        result += named
    return to.node("Einsum", *inputs, equation=f"{','.join(terms)}->{''.join(result)}")


def _broadcast(to: _Nodes, equation: Any, a: str) -> str:
    sizes, kept = equation.params["shape"], equation.params["broadcast_dimensions"]
    had = dict(zip(kept, equation.invars[0].aval.shape, strict=True))
    added = [axis for axis in range(len(sizes)) if axis not in had]
    if added:
        a = to.node("Unsqueeze", a, to.ints(*added))
    wanted = [1 if size == had.get(axis, 1) else size for axis, size in enumerate(sizes)]
    if all(_fixed(size) and size == 1 for size in wanted):
        return a
    return to.node("Expand", a, to.shape(equation, wanted))


def _reshape(to: _Nodes, equation: Any, a: str) -> str:
    sizes = [size if _fixed(size) else -1 for size in equation.params["new_sizes"]]
    if equation.params["dimensions"] is not None or sizes.count(-1) > 1:
        raise _refused("reshape", " of several axes that depend on the number of rows")
    return to.node("Reshape", a, to.ints(*sizes))


def _slice(to: _Nodes, equation: Any, a: str) -> str:
    params, sizes = equation.params, equation.invars[0].aval.shape
    ends, last = params["limit_indices"], np.iinfo(np.int64).max
    ends = [last if end == size else end for end, size in zip(ends, sizes, strict=True)]
    starts = params["start_indices"]
    if params["strides"] is not None or not all(map(_fixed, [*starts, *ends])):
        raise _refused("slice", " with steps, or of rows")
    return to.cut(a, range(len(sizes)), starts, ends)


def _split(to: _Nodes, equation: Any, a: str) -> list[str]:
    axis, ends = equation.params["axis"], np.cumsum(equation.params["sizes"])
    starts = [0, *ends[:-1]]
    return [to.cut(a, [axis], [start], [end]) for start, end in zip(starts, ends, strict=True)]


def _stack(to: _Nodes, equation: Any, *inputs: str) -> str:
    axis = equation.params["axis"]
    return to.node("Concat", *(to.node("Unsqueeze", a, to.ints(axis)) for a in inputs), axis=axis)


def _gather(to: _Nodes, equation: Any, a: str, at: Any) -> str:
    """Columns at known places: a window, or one for each entry of a list."""
    params, sizes = equation.params, equation.invars[0].aval.shape
    how, wide = params["dimension_numbers"], params["slice_sizes"]
    axes, gone = how.start_index_map, how.collapsed_slice_dims
    whole = all(wide[k] == size for k, size in enumerate(sizes) if k not in axes)
    inside = all(
        _fixed(sizes[k]) and _fixed(wide[k]) and at[..., j].min() >= 0
        and at[..., j].max() <= sizes[k] - wide[k]
        for j, k in enumerate(axes)
    )  # fmt: skip
    if whole and inside and at.ndim == 1:
        a = to.cut(a, axes, at, [start + wide[k] for start, k in zip(at, axes, strict=True)])
        return to.node("Squeeze", a, to.ints(*gone)) if gone else a
    # ONNX puts the entries where the axis was.
    kept = [k if k < axes[0] else k + at.ndim - 2 for k in range(len(sizes)) if k != axes[0]]
    if whole and inside and axes == gone and len(axes) == 1 and list(how.offset_dims) == kept:
        return to.node("Gather", a, to.graph.constant(at[..., 0].astype(np.int64)), axis=axes[0])
    raise _refused("gather", " other than for columns at fixed places")


def _reduced(operator: str) -> Callable[..., str]:
    def made(to: _Nodes, equation: Any, a: str) -> str:
        return to.node(operator, a, axes=list(equation.params["axes"]), keepdims=0)

    return made


MADE: dict[str, Callable[..., Any]] = {
    "ne": lambda to, e, a, b: to.node("Not", to.node("Equal", a, b)),
    "and": _logical("And"),
    "or": _logical("Or"),
    "xor": _logical("Xor"),
    "not": _logical("Not"),
    "is_finite": lambda to, e, a: to.node("Equal", to.node("Sub", a, a), to.like(e, 0)),
    "square": lambda to, e, a: to.node("Mul", a, a),
    "integer_pow": lambda to, e, a: to.node("Pow", a, to.like(e, e.params["y"])),
    "rsqrt": lambda to, e, a: to.node("Div", to.like(e, 1), to.node("Sqrt", a)),
    "log1p": lambda to, e, a: to.node("Log", to.node("Add", a, to.like(e, 1))),
    "expm1": lambda to, e, a: to.node("Sub", to.node("Exp", a), to.like(e, 1)),
    "clamp": lambda to, e, low, a, high: to.node("Min", to.node("Max", low, a), high),
    "erf": _erf,
    "erfc": lambda to, e, a: to.node("Sub", to.like(e, 1), _erf(to, e, a)),
    "select_n": _select,
    "dot_general": _dot,
    "transpose": lambda to, e, a: to.node("Transpose", a, perm=list(e.params["permutation"])),
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": lambda to, e, a: to.node("Squeeze", a, to.ints(*e.params["dimensions"])),
    "concatenate": lambda to, e, *all: to.node("Concat", *all, axis=e.params["dimension"]),
    "slice": _slice,
    "split": _split,
    "stack": _stack,
    "tile": lambda to, e, a: to.node("Tile", a, to.ints(*e.params["reps"])),
    "reduce_sum": lambda to, e, a: to.node("ReduceSum", a, to.ints(*e.params["axes"]), keepdims=0),
    "reduce_max": _reduced("ReduceMax"),
    "reduce_min": _reduced("ReduceMin"),
    "reduce_prod": _reduced("ReduceProd"),
    "convert_element_type": lambda to, e, a: to.cast(a, e.params["new_dtype"]),
}  # fmt: skip
"""Operations that take some ONNX nodes: functions of (nodes, equation, inputs)."""
