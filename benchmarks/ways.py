"""Ways to add numbers up by category on a GPU, X' @ g of coded rows, one beside the other.

What the engine does is in `engine/coded.py`; `benchmarks.gpu` measures all of these in one run, so
that the choice can be looked at again on another card.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine.coded import WIDEST, Coded, _by_addition, _by_comparison, _column, _values

Way = Callable[[Coded, Array], Array]
COPIES = 4096


def some_at_a_time(x: Coded, g: Array, together: int) -> Array:
    """One reduction for some columns: it reads the rows once, and a thread keeps all the sums."""

    def add(sums: tuple[Array, ...], more: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(a + b for a, b in zip(sums, more, strict=True))

    hot = [
        value == column
        for value, (_, width) in zip(_values(x), x.layout.categories, strict=True)
        for column in range(width)
    ]
    zero = jnp.zeros((), g.dtype)
    sums: list[Array] = []
    for start in range(0, len(hot), together):
        parts = tuple(jnp.where(one[:, None], g, zero) for one in hot[start : start + together])
        sums += jax.lax.reduce(parts, (zero,) * len(parts), add, (0,))
    return jnp.stack(sums)


def a_category_at_a_time(x: Coded, g: Array) -> Array:
    """One reduction for a category, which reads the rows again for each of its columns."""
    parts = []
    for value, (_, width) in zip(_values(x), x.layout.categories, strict=True):
        hot = value[None] == jnp.arange(width, dtype=value.dtype)[:, None]
        parts.append(jnp.sum(jnp.where(hot[:, :, None], g[None], 0), axis=1))
    return jnp.concatenate(parts)


def columns_last(x: Coded, g: Array) -> Array:
    """The same with the columns of a category beside each other in memory."""
    parts = []
    for value, (_, width) in zip(_values(x), x.layout.categories, strict=True):
        hot = value[:, None] == jnp.arange(width, dtype=value.dtype)[None]
        parts.append(jnp.sum(jnp.where(hot[:, :, None], g[:, None], 0), axis=0))
    return jnp.concatenate(parts)


def each_by_itself(x: Coded, g: Array) -> Array:
    """One plain sum for every column; XLA may put them together."""
    return jnp.stack(
        [
            jnp.sum(jnp.where((value == column)[:, None], g, 0), axis=0)
            for value, (_, width) in zip(_values(x), x.layout.categories, strict=True)
            for column in range(width)
        ]
    )


def in_copies(x: Coded, g: Array) -> Array:
    """Row by row into one of many copies of the sums, so that few additions collide.

    For codes of one category each.
    """
    at = jnp.arange(g.shape[0], dtype=jnp.int32) % COPIES
    parts = []
    for j, (category,) in enumerate(x.layout.codes):
        sums = jnp.zeros((COPIES, WIDEST + 1, g.shape[1]), g.dtype)
        sums = sums.at[at, _column(x, j)].add(g, mode="promise_in_bounds")
        parts.append(sums.sum(axis=0)[: x.layout.categories[category][1]])
    return jnp.concatenate(parts)


WAYS: dict[str, Way] = {
    **{
        f"{count} columns at a time": partial(some_at_a_time, together=count)
        for count in (8, 16, 32, 98)
    },
    "as the engine does": _by_comparison,
    "a category at a time": a_category_at_a_time,
    "columns last": columns_last,
    "each by itself": each_by_itself,
    "in copies": in_copies,
    "row by row": _by_addition,
}


def compiled(way: Way, x: Coded, g: Array) -> Callable[[], Array]:
    """The way as a function without arguments."""
    run = jax.jit(way)
    return lambda: run(x, g)
