"""Sums per cell in which no row counts for more than a bound, whatever is in it.

A row's gradient longer than C is shortened to C, a loss above B counts as B, a curvature matrix
G' C G of trace above T is scaled down to trace T (its Frobenius norm is then at most T). A row
whose gradient or curvature is no finite number adds nothing. Each row belongs to one cell, so one
row more or less moves all cells' gradients together by at most C, their losses by at most B.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fairsilo.coded import dense
from fairsilo.compute import Array, jax, jnp
from fairsilo.model.base import Model
from fairsilo.model.loss import cross_entropy, curvature, probabilities
from fairsilo.sums.blocks import over_blocks
from fairsilo.sums.rows import Rows


@partial(jax.jit, static_argnames="model")
def clipped_sums(
    model: Model, rows: Rows, theta: Array, gradient: float, loss: float
) -> tuple[Array, Array]:
    """Losses (cells,) and gradients (cells, p); `rows.v` (cells, n) says who is in which cell."""

    def row_loss(t: Array, x: Array, y: Array) -> Array:
        only: Array = cross_entropy(model.scores(t, x[None]), y[None])[0]
        return only

    def block(part: Any, y: Array, member: Array) -> tuple[Array, Array]:
        x = dense(part)
        losses, gradients = jax.vmap(jax.value_and_grad(row_loss), in_axes=(None, 0, 0))(
            theta, x, y
        )
        bounded = jnp.where(jnp.isnan(losses), loss, jnp.clip(losses, 0, loss))
        return member.T @ bounded, member.T @ shorten(gradients, gradient)

    both: tuple[Array, Array] = over_blocks(block, rows.x, rows.y, rows.v.T)
    return both


@partial(jax.jit, static_argnames="model")
def clipped_outcomes(
    model: Model, rows: Rows, theta: Array, loss: float, cut: float = 0.5
) -> Array:
    """Losses and rows predicted right of every cell, (2, cells); a row predicted right adds `loss`.

    So that one row's two numbers have the same bound, and together sqrt(2) times it.
    """
    scores = model.scores(theta, rows.x)
    losses = cross_entropy(scores, rows.y)
    bounded = jnp.where(jnp.isnan(losses), loss, jnp.clip(losses, 0, loss))
    p = probabilities(scores)
    said = jnp.where(cut == 0.5, jnp.argmax(p, axis=1), p[:, -1] >= cut)
    right = said == rows.y
    return jnp.stack([rows.v @ bounded, rows.v @ jnp.where(right, loss, 0.0)])


def shorten(vectors: Array, bound: float) -> Array:
    """Each row of `vectors` no longer than `bound`; one whose length is not finite becomes zero."""
    lengths = jnp.linalg.norm(vectors, axis=1, keepdims=True)
    factor = jnp.minimum(1.0, bound / jnp.maximum(lengths, 1e-300))
    return jnp.where(jnp.isfinite(lengths), vectors * factor, 0.0)


@partial(jax.jit, static_argnames="model")
def clipped_curvature(model: Model, rows: Rows, theta: Array, trace: float) -> Array:
    """sum_j of the Gauss-Newton matrices of the rows in any cell, each of at most that trace."""

    def scores(t: Array, x: Array) -> Array:
        only: Array = model.scores(t, x[None])[0]
        return only

    def block(part: Any, member: Array) -> Array:
        x = dense(part)
        g = jax.vmap(jax.jacrev(scores), in_axes=(None, 0))(theta, x)
        bent = jnp.einsum("nab,nbp->nap", curvature(model.scores(theta, x)), g)
        # The trace bounds the norm where no eigenvalue is negative; rounding may make one so.
        turned = jnp.einsum("nap,nbp->nab", bent, g)
        norm = jnp.sqrt(jnp.maximum(jnp.einsum("nab,nba->n", turned, turned), 0.0))
        size = jnp.maximum(jnp.trace(turned, axis1=1, axis2=2), norm)
        factor = jnp.minimum(1.0, trace / jnp.maximum(size, 1e-300)) * member.sum(axis=1)
        sound = (jnp.isfinite(size) & jnp.all(jnp.isfinite(g), axis=(1, 2)))[:, None, None]
        left = jnp.where(sound, bent * factor[:, None, None], 0.0)
        right = jnp.where(sound, g, 0.0)
        product: Array = left.reshape(-1, theta.size).T @ right.reshape(-1, theta.size)
        return product

    total: Array = over_blocks(block, rows.x, rows.v.T)
    return total
