"""Weighted rows, summed: the one computation of a federated round (design, section 1).

    L = sum_j w_j l_j        D_k = sum_j v_kj l_j        c_j = w_j + sum_k mu_k v_kj

The gradient of the Lagrangian is one backward pass with the row weights c. Its
Gauss-Newton matrix, sum_j c_j G_j' C_j G_j with G_j the gradient of row j's scores and C_j
the curvature of the loss in them, is the exact Hessian for logistic regression.

A limit on rates instead of losses replaces l_j in the constraints by the 0-1 error of row j, whose
gradient says nothing. So D_k is measured with the errors and, beside it, with a smooth surrogate
q_j, whose gradient and curvature are summed (a proxy Lagrangian: Cotter, Jiang, Sridharan 2019):
the step follows the surrogate, the multipliers see the true rates (`solver.rates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.coded import dense
from fairsilo.compute import Array, jax, jnp, one_by_one, over_first_axis
from fairsilo.fairness.constraint import Measure
from fairsilo.model.base import Model
from fairsilo.model.loss import cross_entropy, curvature, error, error_curvature, smooth_error
from fairsilo.solver.base import Order, Query, Sums
from fairsilo.sums.blocks import over_blocks
from fairsilo.sums.coded import Placed, Table, gram, placed

Answer = Callable[["Rows", Query], Sums]

BLOCK = 1 << 14
"""Rows whose matrix a silo makes at a time."""
LONG, PIECE = 8192, 512
"""Rows that make a table long, and rows of the pieces that a GPU cuts it into."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Rows and what they weigh: x (n, features), y (n,), w (n,), v (K, n)."""

    x: Table
    y: Array
    w: Array
    v: Array

    def leaves(self) -> tuple[Table, Array, Array, Array]:
        """x, y, w and v."""
        return self.x, self.y, self.w, self.v

    def along(self, function: Callable[[int, Any], Any]) -> Rows:
        """function(axis of the rows, array) of every array."""
        x = jax.tree.map(partial(function, -2), self.x)
        return Rows(x, *(function(-1, leaf) for leaf in (self.y, self.w, self.v)))


def stack_silos(rows: Rows, offsets: npt.NDArray[np.int64]) -> Rows:
    """Rows laid end to end, with a leading axis of silos instead; weight zero fills them up."""
    n = int(np.diff(offsets).max())

    def lay(values: Any) -> np.ndarray:
        parts = [np.asarray(values[start:stop]) for start, stop in pairwise(offsets)]
        fill = [(0, 0)] * (parts[0].ndim - 1)
        return np.stack([np.pad(part, [(0, n - len(part)), *fill]) for part in parts])

    v = np.swapaxes(lay(np.asarray(rows.v).T), 1, 2)
    return Rows(jax.tree.map(lay, rows.x), lay(rows.y), lay(rows.w), v)  # type: ignore[arg-type]


def padded(rows: Rows, start: int, stop: int) -> Rows:
    """A silo's rows, filled up with rows of weight zero to a power of two.

    Silos of any size then share a few compiled programs instead of one each.
    """
    size = int(stop - start)
    extra = (1 << max(size - 1, 0).bit_length()) - size
    cast = partial(jnp.asarray, dtype=jnp.float64)

    def lay(leaf: Array) -> np.ndarray:
        return np.pad(np.asarray(leaf[start:stop]), ((0, extra), (0, 0)))

    return Rows(
        placed(jax.tree.map(lay, rows.x)),
        jnp.asarray(np.pad(np.asarray(rows.y[start:stop]), (0, extra)), jnp.int32),
        cast(np.pad(np.asarray(rows.w[start:stop]), (0, extra))),
        cast(np.pad(np.asarray(rows.v[:, start:stop]), ((0, 0), (0, extra)))),
    )


def even(tables: Sequence[Rows]) -> list[Rows]:
    """The tables, each filled up with rows of weight zero to the length of the longest.

    Long ones a little more, so that they are whole pieces (see `in_pieces`).
    """
    n = max(table.y.shape[-1] for table in tables)
    n += -n % PIECE if n >= LONG else 0

    def fill(axis: int, leaf: Any) -> Any:
        missing = [(0, 0)] * leaf.ndim
        missing[axis] = (0, n - leaf.shape[axis])
        return np.pad(leaf, missing)

    return [one.along(fill) for one in tables]


def row_sums(
    model: Model, order: Order, rows: Rows, query: Query, measure: Measure = "loss"
) -> Sums:
    """Answer a query over the given rows."""
    if measure == "rate":
        return _rate_sums(model, order, rows, query)

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


@partial(jax.jit, static_argnames=("model", "order", "measure"))
def compiled_sums(
    model: Model, order: Order, rows: Rows, query: Query, measure: Measure = "loss"
) -> Sums:
    """`row_sums` as a program: what a silo answers with.

    A model that takes no codes gets the matrix in blocks: all of it would not fit in memory.
    """
    answer = partial(row_sums, model, order, measure=measure)
    if isinstance(rows.x, Placed) and not model.only_multiplies:
        return in_blocks(answer, rows, query, BLOCK)
    return answer(rows, query)


@partial(jax.jit, static_argnames="model")
def compiled_scores(model: Model, theta: Array, x: Table) -> Array:
    """The scores of rows, as a program."""
    scores: Array = model.scores(theta, x)
    return scores


def _rate_sums(model: Model, order: Order, rows: Rows, query: Query) -> Sums:
    """`row_sums` with D_k = sum_j v_kj [row j is predicted wrong], then sum_j v_kj q_j."""

    def losses(theta: Array) -> tuple[Array, Array]:
        scores = model.scores(theta, rows.x)
        return cross_entropy(scores, rows.y), smooth_error(scores - model.bar, rows.y)

    (row_loss, smooth), pull_back = jax.vjp(losses, query.theta)
    wrong = error(model.scores(query.theta, rows.x), rows.y, model.cut)
    loss, pushed = rows.w @ row_loss, query.mu @ rows.v
    d = jnp.concatenate([rows.v @ wrong, rows.v @ smooth])
    if order is Order.LAGRANGIAN:
        return Sums(loss, d, pull_back((rows.w, pushed))[0])
    nothing = jnp.zeros_like(rows.w)
    grad = pull_back((rows.w, nothing))[0]
    jac = jax.vmap(lambda weights: pull_back((nothing, weights))[0])(rows.v)
    hess = None
    if order is Order.SECOND:
        hess = gauss_newton(model, rows.x, rows.w, query.theta, (rows.y, pushed))
    return Sums(loss, d, grad, jac, hess)


def many_sums(
    model: Model, order: Order, rows: Rows, queries: Query, measure: Measure = "loss"
) -> Sums:
    """Answer the queries of R runs over the same rows; the runs are the last axis of the work.

    Only for the Lagrangian of losses of a model whose runs are one product; else the runs are
    mapped.
    """
    one = partial(row_sums, model, order, measure=measure)
    if queries.theta.shape[0] == 1:
        # Without the axis of runs: XLA is slow at reductions beside an axis of length one.
        alone: Sums = jax.tree.map(
            lambda leaf: leaf[None], one(rows, jax.tree.map(lambda leaf: leaf[0], queries))
        )
        return alone
    if order is not Order.LAGRANGIAN or model.apply_many is None or measure != "loss":
        return jax.vmap(one, in_axes=(None, 0))(rows, queries)

    def losses(thetas: Array) -> Array:
        return cross_entropy(model.scores_of_many(thetas, rows.x), rows.y[:, None])

    row_loss, pull_back = jax.vjp(losses, queries.theta)
    mixed = rows.w[:, None] + rows.v.T @ queries.mu.T
    return Sums(rows.w @ row_loss, (rows.v @ row_loss).T, pull_back(mixed)[0])


def in_blocks(answer: Answer, rows: Rows, query: Query, size: int) -> Sums:
    """The sum of the answers over blocks of `size` rows, so that what is in between stays small."""
    whole, n = (rows.y.shape[-1] - 1) // size, rows.y.shape[-1]

    def block(start: int | Array, length: int) -> Sums:
        def cut(axis: int, leaf: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(leaf, start, length, axis)

        return answer(rows.along(cut), query)

    last = block(whole * size, n - whole * size)
    if not whole:
        return last
    total: Sums = jax.lax.fori_loop(0, whole, lambda i, sums: sums + block(i * size, size), last)
    return total


def in_pieces(answer: Answer, rows: Rows, query: Query) -> Sums:
    """The sum of the answers over pieces of the rows, all at once.

    A gradient is a product with few results and long sums, which leaves most of a GPU idle; more
    and shorter ones do not.
    """

    def cut(axis: int, leaf: Any) -> Any:
        axis += leaf.ndim
        shape = (*leaf.shape[:axis], leaf.shape[axis] // PIECE, PIECE, *leaf.shape[axis + 1 :])
        return jnp.moveaxis(leaf.reshape(shape), axis, 0)

    each = jax.vmap(answer, in_axes=(0, None))(rows.along(cut), query)
    total: Sums = jax.tree.map(lambda leaf: leaf.sum(axis=0), each)
    return total


def local_sums(
    model: Model, order: Order, silos: Rows, query: Query, measure: Measure = "loss"
) -> Sums:
    """Answer a query with constraints of every silo's own (the `local` estimator).

    The rows have a leading axis of silos. L is summed over them as ever; the D_k, their gradients
    and their multipliers stay apart, silo by silo: K = silos * pairs. Limits on rates are not for
    single silos, which have few rows.
    """
    assert measure == "loss"
    count = silos.x.shape[0]
    mu = query.mu.reshape(count, -1)
    first = order if order is Order.LAGRANGIAN else Order.FIRST
    each = over_first_axis(
        lambda rows, m: row_sums(model, first, rows, Query(query.theta, m)), silos, mu
    )
    loss, d, grad = each.loss.sum(), each.d.reshape(-1), each.grad.sum(axis=0)
    if each.jac is None:
        return Sums(loss, d, grad)
    hess = None
    if order is Order.SECOND:
        mixed = silos.w + jnp.einsum("sk,skn->sn", mu, silos.v)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), silos.x)
        hess = gauss_newton(model, flat, mixed.reshape(-1), query.theta)
    return Sums(loss, d, grad, each.jac.reshape(d.size, -1), hess)


def gauss_newton(
    model: Model,
    x: Table,
    weights: Array,
    theta: Array,
    errors: tuple[Array, Array] | None = None,
) -> Array:
    """sum_j weights_j G_j' C_j G_j over blocks of rows, (p, p).

    `errors` are classes y and further weights, of the curvature of the smooth error.
    """
    extra = () if errors is None else errors
    if model.linear:
        return _of_linear(_bend(model, model.scores(theta, x), weights, *extra), x)

    def one_row(row: Array) -> Array:
        gradients: Array = jax.jacrev(lambda t: model.scores(t, row[None])[0])(theta)
        return gradients

    def block(part: Table, c: Array, *more: Array) -> Array:
        rows = dense(part)
        g = jax.vmap(one_row)(rows)
        return _product(_bend(model, model.scores(theta, rows), c, *more), g)

    total: Array = over_blocks(block, x, weights, *extra)
    return total


def _bend(model: Model, scores: Array, c: Array, *more: Array) -> Array:
    """The weighted curvature of every row in its scores, (n, outputs, outputs)."""
    bend = c[:, None, None] * curvature(scores)
    if more:
        bend += more[1][:, None, None] * error_curvature(scores - model.bar, more[0])
    return bend


def _of_linear(bend: Array, x: Table) -> Array:
    """The matrix of logistic regression, whose G_j are the row (1, x_j) for every output."""
    counted = isinstance(x, Placed) and jax.default_backend() == "cpu"
    product, outputs = gram if counted else _dense_gram, bend.shape[-1]
    every = [[product(x, bend[:, a, b]) for b in range(outputs)] for a in range(outputs)]
    size = outputs * every[0][0].shape[0]
    return jnp.asarray(every).transpose(2, 0, 3, 1).reshape(size, size)


@one_by_one
def _dense_gram(x: Table, c: Array) -> Array:
    """Z' diag(c) Z for Z = (1, X), by products of blocks."""

    def block(part: Table, c: Array) -> Array:
        z = jnp.concatenate([jnp.ones((len(c), 1), c.dtype), dense(part)], axis=1)
        return z.T @ (c[:, None] * z)

    total: Array = over_blocks(block, x, c)
    return total


@one_by_one
def _product(bend: Array, g: Array) -> Array:
    """sum_j g_j' bend_j g_j for bend (n, outputs, outputs) and g (n, outputs, p)."""
    p = g.shape[-1]
    bent = jnp.einsum("nab,nbp->nap", bend, g)
    product: Array = bent.reshape(-1, p).T @ g.reshape(-1, p)
    return product
