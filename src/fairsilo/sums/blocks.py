"""Sums over rows in blocks, so that what is computed per row is never all in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fairsilo.compute import jax, jnp

BLOCK = {"cpu": 4096, "gpu": 65_536}
"""Rows whose score gradients are held in memory at once."""


def over_blocks(part: Callable[..., Any], *columns: Any) -> Any:
    """The sum of `part(*columns)` over blocks of rows."""
    size = BLOCK.get(jax.default_backend(), BLOCK["cpu"])
    whole = columns[0].shape[0] // size
    total = part(*jax.tree.map(lambda leaf: leaf[whole * size :], columns))
    if whole:

        def add(i: int, so_far: Any) -> Any:
            cut = partial(jax.lax.dynamic_slice_in_dim, start_index=i * size, slice_size=size)
            return jax.tree.map(jnp.add, so_far, part(*jax.tree.map(cut, columns)))

        total = jax.lax.fori_loop(0, whole, add, total)
    return total
