"""Rows as codes: a category of 40 values is one byte a row instead of 40 columns of 0 and 1.

`Coded` stands for the matrix X of one-hot columns without holding it. `X @ W` looks up one row of
W for each category, and X' @ G adds the rows of G up by category, so that a round reads a tenth of
the bytes and does a tenth of the work of the dense products, and gives the same sums. A model
needs nothing but `x @ weight` to take either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import Array, jax, jnp

WIDEST = 255
"""Columns that one byte can name; a wider category becomes several codes."""
BLOCK = 65_536
"""Rows looked at together while a matrix is searched for categories."""
FEW = 8
"""Columns that are few: they go through a row as its codes do, and not as a matrix."""


@dataclass(frozen=True)
class Layout:
    """Which columns of the dense matrix are numbers, and where each category's columns lie."""

    numbers: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]
    """The first column and the number of columns of each; they lie side by side."""
    codes: tuple[tuple[int, ...], ...]
    """The categories that each code speaks of: small ones share one, the first varying slowest."""

    @property
    def width(self) -> int:
        """How many columns the dense matrix has."""
        return len(self.numbers) + sum(width for _, width in self.categories)

    def radices(self, code: int) -> list[int]:
        """How many values each category of a code has, the blank included."""
        return [self.categories[category][1] + 1 for category in self.codes[code]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Coded:
    """Rows as numbers (..., n, a) and codes (..., n, b).

    Value c of a category stands for a one in its column c; a value as large as the number of its
    columns, the blank, for zeros in all of them. A code holds the values of one category or more.
    """

    numbers: Array
    codes: Array
    layout: Layout = field(metadata={"static": True})

    @property
    def ndim(self) -> int:
        """As many axes as the dense matrix has."""
        return self.codes.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense matrix."""
        return (*self.codes.shape[:-1], self.layout.width)

    @property
    def nbytes(self) -> int:
        """The bytes of numbers and codes."""
        return int(self.numbers.nbytes + self.codes.nbytes)

    def __matmul__(self, weight: Array) -> Array:
        return _times(self, weight)


Table = Array | Coded
"""The features of rows, dense or coded."""


def dense(x: Table) -> Array:
    """The matrix (n, features) that the rows stand for."""
    if not isinstance(x, Coded):
        return x
    hot = [
        jax.nn.one_hot(value, width, dtype=x.numbers.dtype)
        for value, (_, width) in zip(_values(x), x.layout.categories, strict=True)
    ]
    return jnp.concatenate([x.numbers, *hot], axis=-1)[..., _order(x.layout)]


def _values(x: Coded) -> list[Array]:
    """The value of each category, in the order of the categories."""
    found: dict[int, Array] = {}
    for j, categories in enumerate(x.layout.codes):
        rest = x.codes[..., j]
        for category, radix in zip(categories[::-1], x.layout.radices(j)[::-1], strict=True):
            found[category] = rest % radix if len(categories) > 1 else rest
            rest = rest // radix
    return [found[category] for category in range(len(found))]


def code(x: npt.NDArray[np.floating[Any]], dtype: np.dtype[Any] | type) -> Table:
    """Find the categories in a dense matrix (..., n, features); numbers become `dtype`.

    Neighbouring columns of zeros and ones of which no row has two ones are a category, whatever
    they were called. Without any, the matrix stays as it is.
    """
    columns = x.shape[-1]
    flat = x.reshape(-1, columns)
    blocks = [flat[start : start + BLOCK] for start in range(0, len(flat), BLOCK)]
    binary = np.ones(columns, dtype=bool)
    for block in blocks:
        binary[binary] = np.all((block[:, binary] == 0) | (block[:, binary] == 1), axis=0)
        if not binary.any():
            return jnp.asarray(x, dtype)
    together = sum(np.float64(1) * (half.T @ half) for half in _ones(blocks, binary))
    layout = _layout(binary, np.asarray(together) > 0)
    value = np.zeros((columns, len(layout.codes)), np.float32)
    blank = np.zeros(len(layout.codes), np.float32)
    for j, categories in enumerate(layout.codes):
        strides = np.cumprod([1, *layout.radices(j)[:0:-1]])[::-1]
        for category, stride in zip(categories, strides, strict=True):
            start, width = layout.categories[category]
            value[start : start + width, j] = (np.arange(width) - width) * stride
            blank[j] += width * stride
    ones = _ones(blocks, binary)
    codes = np.concatenate([one @ value[binary] + blank for one in ones]).astype(np.uint8)
    numbers = jnp.asarray(x[..., list(layout.numbers)], dtype)
    return Coded(numbers, jnp.asarray(codes.reshape(*x.shape[:-1], -1)), layout)


def _ones(blocks: list[Any], binary: npt.NDArray[np.bool_]) -> Any:
    return (block[:, binary].astype(np.float32) for block in blocks)


def _layout(binary: npt.NDArray[np.bool_], together: npt.NDArray[np.bool_]) -> Layout:
    """Grow a category column by column, until a row would have two ones or a gap comes."""
    place = np.cumsum(binary) - 1
    categories: list[tuple[int, int]] = []
    for column in np.flatnonzero(binary):
        if categories:
            start, width = categories[-1]
            mine = place[start] + np.arange(width)
            if (
                start + width == column
                and width < WIDEST
                and not together[place[column]][mine].any()
            ):
                categories[-1] = (start, width + 1)
                continue
        categories.append((int(column), 1))
    numbers = tuple(map(int, np.flatnonzero(~binary)))
    return Layout(numbers, tuple(categories), shared([width + 1 for _, width in categories]))


def shared(radices: list[int]) -> tuple[tuple[int, ...], ...]:
    """Which categories share a byte: the largest first, each where it still fits."""
    codes: list[list[int]] = []
    room: list[int] = []
    for category in sorted(range(len(radices)), key=lambda c: -radices[c]):
        radix = radices[category]
        fits = [j for j, left in enumerate(room) if left >= radix]
        if not fits:
            fits = [len(codes)]
            codes.append([])
            room.append(WIDEST + 1)
        codes[fits[0]].append(category)
        room[fits[0]] //= radix
    return tuple(map(tuple, codes))


def _order(layout: Layout) -> npt.NDArray[np.int64]:
    """Where each dense column is, when the numbers come first and the categories follow."""
    columns = [*layout.numbers]
    for start, width in layout.categories:
        columns += range(start, start + width)
    return np.argsort(columns)


@jax.custom_vjp
def _times(x: Coded, weight: Array) -> Array:
    product: Array = _forward(x, weight)
    return product


def _times_forward(x: Coded, weight: Array) -> tuple[Array, Coded]:
    return _forward(x, weight), x


def _times_backward(x: Coded, g: Array) -> tuple[None, Array]:
    return None, _backward(x, g)


_times.defvjp(_times_forward, _times_backward)


@jax.custom_batching.custom_vmap
def _forward(x: Coded, weight: Array) -> Array:
    """X @ weight for weight (features, k)."""
    own, count = weight[np.array(x.layout.numbers, int)], len(x.layout.codes)
    table = jnp.concatenate([_added_up(x.layout, j, weight) for j in range(count)])

    def add(j: int | Array, z: Array) -> Array:
        return z + table.at[_place(x, j)].get(mode="promise_in_bounds")

    if weight.shape[1] > 1:
        # XLA does not fuse through a loop: else it would look wide rows up for every use of z.
        wide: Array = jax.lax.fori_loop(0, count, add, x.numbers @ own)
        return wide
    if 0 < len(own) <= FEW:
        # Number by number, in one pass with the look-ups: ADULT 0.07 ms instead of 0.22.
        z = reduce(jnp.add, (x.numbers[:, i, None] * own[i] for i in range(len(own))))
    else:
        z = x.numbers @ own
    return reduce(lambda z, j: add(j, z), range(count), z)


@jax.custom_batching.custom_vmap
def _backward(x: Coded, g: Array) -> Array:
    """X' @ g for g (n, k)."""
    by_value = _by_addition if jax.default_backend() == "cpu" else _by_comparison
    sums = by_value(x, g)
    total: Array = jnp.concatenate([x.numbers.T @ g, sums])[_order(x.layout)]
    return total


def _by_addition(x: Coded, g: Array) -> Array:
    """Row by row, each to the sum of its code; a category's sums are those over the others.

    With few columns all codes of a row in turn: neighbouring rows often have the same code, and
    adding twice to one number waits for the first (ADULT, one column: 0.15 ms instead of 0.42).
    """
    count, values, k = len(x.layout.codes), WIDEST + 1, g.shape[1]

    def add(j: Array, sums: Array) -> Array:
        return sums.at[_place(x, j)].add(g, mode="promise_in_bounds")

    sums = jnp.zeros((count * values, k), g.dtype)
    if k <= FEW:
        every = jnp.arange(count, dtype=jnp.int32) * values + x.codes.astype(jnp.int32)
        sums = sums.at[every].add(g[:, None], mode="promise_in_bounds")
    else:
        sums = jax.lax.fori_loop(0, count, add, sums)
    sums = sums.reshape(count, values, k)
    found: dict[int, Array] = {}
    for j, categories in enumerate(x.layout.codes):
        radices = x.layout.radices(j)
        grid = sums[j, : int(np.prod(radices))].reshape(*radices, -1)
        for axis, category in enumerate(categories):
            others = tuple(other for other in range(len(radices)) if other != axis)
            found[category] = grid.sum(axis=others)[: radices[axis] - 1]
    return jnp.concatenate([found[category] for category in range(len(found))])


def _by_comparison(x: Coded, g: Array) -> Array:
    """A reduction along the rows for every value, without the collisions of a GPU's additions.

    Measured on one H200, 10^7 rows of ADULT's shape, for this step alone: 0.76 ms with a sum for
    each value, 1.01 ms with one reduction for each category, 37 ms added row by row.
    """
    sums = [
        jnp.sum(jnp.where((value == v)[:, None], g, 0), axis=0)
        for value, (_, width) in zip(_values(x), x.layout.categories, strict=True)
        for v in range(width)
    ]
    return jnp.stack(sums)


def _added_up(layout: Layout, j: int, weight: Array) -> Array:
    """What each value of code j adds to X @ weight, (256, k)."""
    k = weight.shape[1]
    table = jnp.zeros((1, k), weight.dtype)
    for category in layout.codes[j]:
        start, width = layout.categories[category]
        own = jnp.pad(weight[start : start + width], ((0, 1), (0, 0)))
        table = (table[:, None] + own[None]).reshape(-1, k)
    return jnp.pad(table, ((0, WIDEST + 1 - len(table)), (0, 0)))


def _place(x: Coded, j: int | Array) -> Array:
    """Where each row's value of code j stands in the values of all codes."""
    column: Array = jax.lax.dynamic_index_in_dim(x.codes, j, axis=1, keepdims=False)
    return column.astype(jnp.int32) + j * (WIDEST + 1)


def _batched(function: Any, size: int, batched: Any, x: Coded, m: Array) -> tuple[Array, bool]:
    """Many matrices for the same rows are one wide matrix; many tables come one by one."""
    table, matrix = (any(jax.tree.leaves(leaf)) for leaf in batched)
    if table:
        each = (x, m) if matrix else (x,)
        return jax.lax.map(lambda one: function(one[0], one[1] if matrix else m), each), True
    wide = jnp.moveaxis(m, 0, 1).reshape(m.shape[1], -1)
    result = function(x, wide)
    return jnp.moveaxis(result.reshape(result.shape[0], size, m.shape[-1]), 1, 0), True


_forward.def_vmap(partial(_batched, _forward))
_backward.def_vmap(partial(_batched, _backward))
