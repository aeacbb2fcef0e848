"""Rows as codes on a device: the products of `fairsilo.coded`, compiled and differentiable.

A round reads a tenth of the bytes and does a tenth of the work of the dense products, and gives
the same sums. A model needs nothing but `x @ weight` to take either.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np

from fairsilo.coded import VALUES, Coded, Layout, dense, meaning
from fairsilo.compute import Array, jax, jnp, one_by_one
from fairsilo.sums.blocks import over_blocks

COMPARED = 256
"""Columns up to which a GPU compares a code with each of its values."""
FEW = 8
"""Columns that are few: they go through a row as its codes do, and not as a matrix."""


class Placed(Coded):
    """Coded rows in JAX's arrays; further axes, of tables, may come first."""

    def __matmul__(self, weight: Array) -> Array:
        return _times(self, weight)

    def matrix(self) -> Array:
        """The matrix (..., n, features) that the rows stand for."""
        hot = [_meaning(self, j)[self.codes[..., j]] for j in range(len(self.layout.codes))]
        return jnp.concatenate([self.numbers, *hot], axis=-1)[..., self.layout.order]


for kind in (Coded, Placed):
    jax.tree_util.register_dataclass(kind, ["numbers", "codes"], ["layout"])

Table = Array | Coded
"""The features of rows, dense or coded."""


def placed(x: Any, dtype: Any = np.float64) -> Any:
    """The table on the device, with numbers of that type; aligned arrays are not copied."""
    if not isinstance(x, Coded):
        return jnp.asarray(x, dtype)
    return Placed(jnp.asarray(x.numbers, dtype), jnp.asarray(x.codes, np.uint8), x.layout)


@one_by_one
def gram(x: Any, c: Array) -> Array:
    """Z' diag(c) Z for Z = (1, X): for every two codes a table of weighted counts.

    On a CPU. A GPU adds slowly where rows collide, and multiplies fast.
    """
    layout, every = x.layout, range(len(x.layout.codes))
    ones = jnp.concatenate([jnp.ones((len(c), 1), c.dtype), x.numbers], axis=1)
    weighted = c[:, None] * ones
    beside = jnp.concatenate([jnp.sum(weighted, axis=0)[None], _backward(x, weighted)])
    blocks: dict[tuple[int, int], Array] = {}
    for j in every:
        means, first = _meaning(x, j), x.codes[:, j].astype(jnp.int32) * VALUES
        alone = _counted(x.codes[:, j], c, VALUES)
        blocks[j, j] = means.T @ (alone[:, None] * means)
        for k in range(j):
            pairs = _counted(first + x.codes[:, k], c, VALUES**2).reshape(VALUES, VALUES)
            blocks[j, k] = means.T @ pairs @ _meaning(x, k)
            blocks[k, j] = blocks[j, k].T
    order = np.concatenate([[0], 1 + layout.order])
    rows = [beside.T]
    for j in every:
        hot = jnp.concatenate([blocks[j, k] for k in every], axis=1)
        mine = jnp.concatenate([beside[1 + layout.columns(j)], hot], axis=1)
        rows.append(mine[:, order])
    return jnp.concatenate(rows)[order]


def _counted(values: Array, weights: Array, size: int) -> Array:
    return jnp.zeros(size, weights.dtype).at[values].add(weights, mode="promise_in_bounds")


def _meaning(x: Coded, j: int) -> Array:
    return jnp.asarray(meaning(x.layout, j), x.numbers.dtype)


def _values(x: Coded) -> list[Array]:
    """The value of each category, in the order of the codes."""
    found: list[Array] = []
    for j, categories in enumerate(x.layout.codes):
        rest, mine = x.codes[..., j], []
        for radix in x.layout.radices(j)[::-1]:
            mine.append(rest % radix if len(categories) > 1 else rest)
            rest = rest // radix
        found += mine[::-1]
    return found


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
    total: Array = reduce(lambda z, j: add(j, z), range(count), z)
    return total


@jax.custom_batching.custom_vmap
def _backward(x: Coded, g: Array) -> Array:
    """X' @ g for g (n, k)."""
    if jax.default_backend() == "cpu":
        sums = _by_addition(x, g)
    elif x.layout.width <= COMPARED:
        sums = _by_comparison(x, g)
    else:
        return _by_product(x, g)
    total: Array = jnp.concatenate([x.numbers.T @ g, sums])[x.layout.order]
    return total


def _by_addition(x: Coded, g: Array) -> Array:
    """Row by row, each to the sum of its code; a category's sums are those over the others.

    With few columns all codes of a row in turn: neighbouring rows often have the same code, and
    adding twice to one number waits for the first (ADULT, one column: 0.15 ms instead of 0.42).
    """
    count, values, k = len(x.layout.codes), VALUES, g.shape[1]

    def add(j: Array, sums: Array) -> Array:
        return sums.at[_place(x, j)].add(g, mode="promise_in_bounds")

    sums = jnp.zeros((count * values, k), g.dtype)
    if k <= FEW:
        every = jnp.arange(count, dtype=jnp.int32) * values + x.codes.astype(jnp.int32)
        sums = sums.at[every].add(g[:, None], mode="promise_in_bounds")
    else:
        sums = jax.lax.fori_loop(0, count, add, sums)
    sums = sums.reshape(count, values, k)
    found: list[Array] = []
    for j in range(count):
        radices = x.layout.radices(j)
        grid = sums[j, : int(np.prod(radices))].reshape(*radices, -1)
        for axis, radix in enumerate(radices):
            others = tuple(other for other in range(len(radices)) if other != axis)
            found.append(grid.sum(axis=others)[: radix - 1])
    return jnp.concatenate(found)


def _by_product(x: Coded, g: Array) -> Array:
    """Blocks of the matrix, made and multiplied: many comparisons take long to compile."""
    total: Array = over_blocks(lambda part, g: dense(part).T @ g, x, g)
    return total


def _by_comparison(x: Coded, g: Array) -> Array:
    """A reduction along the rows for every value, without the collisions of a GPU's additions.

    Measured on one H200, 10^7 rows of ADULT's shape, for this step alone: 0.76 ms with a sum for
    each value, 1.01 ms with one reduction for each category, 37 ms added row by row.
    """
    widths = [x.layout.categories[one][1] for code in x.layout.codes for one in code]
    sums = [
        jnp.sum(jnp.where((value == v)[:, None], g, 0), axis=0)
        for value, width in zip(_values(x), widths, strict=True)
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
    return jnp.pad(table, ((0, VALUES - len(table)), (0, 0)))


def _place(x: Coded, j: int | Array) -> Array:
    """Where each row's value of code j stands in the values of all codes."""
    column: Array = jax.lax.dynamic_index_in_dim(x.codes, j, axis=1, keepdims=False)
    return column.astype(jnp.int32) + j * VALUES


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
