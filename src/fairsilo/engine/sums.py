"""Weighted rows, summed: the one computation of a federated round (design, section 1).

    L = sum_j w_j l_j        D_k = sum_j v_kj l_j        c_j = w_j + sum_k mu_k v_kj

The gradient of the Lagrangian is one backward pass with the row weights c. Its
Gauss-Newton matrix, sum_j c_j G_j' C_j G_j with G_j the gradient of row j's scores and C_j
the curvature of the loss in them, is the exact Hessian for logistic regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine.blocks import over_blocks
from fairsilo.model.base import Model
from fairsilo.model.loss import cross_entropy, curvature
from fairsilo.solver.base import Order, Query, Sums


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Rows and what they weigh: x (n, features), y (n,), w (n,), v (K, n)."""

    x: Array
    y: Array
    w: Array
    v: Array

    def leaves(self) -> tuple[Array, Array, Array, Array]:
        """x, y, w and v."""
        return self.x, self.y, self.w, self.v


def stack_silos(rows: Rows, offsets: npt.NDArray[np.int64]) -> Rows:
    """Rows laid end to end, with a leading axis of silos instead; weight zero fills them up."""
    n = int(np.diff(offsets).max())

    def lay(values: Any) -> np.ndarray:
        parts = [np.asarray(values[start:stop]) for start, stop in pairwise(offsets)]
        fill = [(0, 0)] * (parts[0].ndim - 1)
        return np.stack([np.pad(part, [(0, n - len(part)), *fill]) for part in parts])

    v = np.swapaxes(lay(np.asarray(rows.v).T), 1, 2)
    return Rows(lay(rows.x), lay(rows.y), lay(rows.w), v)  # type: ignore[arg-type]


def even(tables: Sequence[Rows]) -> list[Rows]:
    """The tables, each filled up with rows of weight zero to the length of the longest."""
    n = max(table.y.shape[-1] for table in tables)

    def fill(leaf: Any, axis: int) -> Any:
        missing = [(0, 0)] * leaf.ndim
        missing[axis] = (0, n - leaf.shape[axis])
        return np.pad(leaf, missing)

    return [
        Rows(fill(one.x, -2), fill(one.y, -1), fill(one.w, -1), fill(one.v, -1)) for one in tables
    ]


def row_sums(model: Model, order: Order, rows: Rows, query: Query) -> Sums:
    """Answer a query over the given rows."""

    def losses(theta: Array) -> Array:
        return cross_entropy(model.scores(theta, rows.x), rows.y)

    row_loss, pull_back = jax.vjp(losses, query.theta)
    loss, d = rows.w @ row_loss, rows.v @ row_loss
    mixed = rows.w + query.mu @ rows.v
    if order is Order.LAGRANGIAN:
        return Sums(loss, d, pull_back(mixed)[0])
    grads = jax.vmap(lambda weights: pull_back(weights)[0])(jnp.concatenate([rows.w[None], rows.v]))
    hess = gauss_newton(model, rows.x, mixed, query.theta) if order is Order.SECOND else None
    return Sums(loss, d, grads[0], grads[1:], hess)


def local_sums(model: Model, order: Order, silos: Rows, query: Query) -> Sums:
    """Answer a query with constraints of every silo's own (the `local` estimator).

    The rows have a leading axis of silos. L is summed over them as ever; the D_k, their gradients
    and their multipliers stay apart, silo by silo: K = silos * pairs.
    """
    count = silos.x.shape[0]
    mu = query.mu.reshape(count, -1)
    first = order if order is Order.LAGRANGIAN else Order.FIRST
    each = jax.vmap(lambda rows, m: row_sums(model, first, rows, Query(query.theta, m)))(silos, mu)
    loss, d, grad = each.loss.sum(), each.d.reshape(-1), each.grad.sum(axis=0)
    if each.jac is None:
        return Sums(loss, d, grad)
    hess = None
    if order is Order.SECOND:
        mixed = silos.w + jnp.einsum("sk,skn->sn", mu, silos.v)
        flat = silos.x.reshape(-1, silos.x.shape[-1])
        hess = gauss_newton(model, flat, mixed.reshape(-1), query.theta)
    return Sums(loss, d, grad, each.jac.reshape(d.size, -1), hess)


def gauss_newton(model: Model, x: Array, weights: Array, theta: Array) -> Array:
    """sum_j weights_j G_j' C_j G_j over blocks of rows, (p, p)."""

    def one_row(row: Array) -> Array:
        gradients: Array = jax.jacrev(lambda t: model.scores(t, row[None])[0])(theta)
        return gradients

    def block(rows: Array, c: Array) -> Array:
        g = jax.vmap(one_row)(rows)
        bent = jnp.einsum("n,nab,nbp->nap", c, curvature(model.scores(theta, rows)), g)
        product: Array = bent.reshape(-1, theta.size).T @ g.reshape(-1, theta.size)
        return product

    total: Array = over_blocks(block, x, weights)
    return total
