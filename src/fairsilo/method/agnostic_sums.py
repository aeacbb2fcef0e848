"""What AF's clients answer: sums over rows, for the alpha step and for the theta step.

Both functions take the rows of one client; applied to the rows of several at once they give what
adding over these clients gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from fairsilo.compute import Array, jax, jnp
from fairsilo.model.base import Model
from fairsilo.model.loss import cross_entropy

Penalty = Literal["squares", "covariance"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AgnosticRows:
    """One client's rows (or those of several) as AF sees them."""

    x: Array
    y: Array
    s: Array
    """1 in group a, 0 elsewhere."""
    paired: Array
    """1 in the two groups that are compared, 0 elsewhere."""
    kernel: Array
    """K(x_j, z_r), (n, R)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AdversarySums:
    """One client's coefficients of the program; those of several clients add up."""

    kernel: Array
    """sum_j K_jr, (R,)."""
    loss_kernel: Array
    """sum_j l_j K_jr."""
    group_kernel: Array
    """sum_j s_j K_jr."""
    group_score_kernel: Array
    """sum_j s_j u_j K_jr."""
    loss: Array
    """sum_j l_j."""
    score: Array
    """sum_j u_j over the rows of the two groups."""

    def __add__(self, other: AdversarySums) -> AdversarySums:
        total: AdversarySums = jax.tree.map(jnp.add, self, other)
        return total


@partial(jax.jit, static_argnames="model")
def adversary_sums(model: Model, rows: AgnosticRows, theta: Array) -> AdversarySums:
    """A client's answer to the alpha step's query at theta."""
    scores = model.scores(theta, rows.x)
    losses, u = cross_entropy(scores, rows.y), scores[:, 0]
    weights = jnp.stack([jnp.ones_like(u), losses, rows.s, rows.s * u])
    kernel, loss_kernel, group_kernel, group_score_kernel = weights @ rows.kernel
    return AdversarySums(
        kernel, loss_kernel, group_kernel, group_score_kernel, losses.sum(), rows.paired @ u
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weighting:
    """What the server broadcasts for w_j = start + sum_r alpha_r K_jr."""

    start: Array
    alpha: Array
    sbar: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ThetaSums:
    """One client's part of the theta step; parts of several clients add up."""

    loss: Array
    """sum_j l_j, unweighted: what the history shows."""
    covariance: Array
    """sum_j (w_j s_j - sbar_w) u_j."""
    grad: Array
    """Gradient of sum_j w_j l_j."""
    penalty_grad: Array
    """Gradient of sum_j [(w_j s_j - sbar_w) u_j]^2, or of `covariance` in that variant."""

    def __add__(self, other: ThetaSums) -> ThetaSums:
        total: ThetaSums = jax.tree.map(jnp.add, self, other)
        return total


@partial(jax.jit, static_argnames=("model", "penalty"))
def theta_sums(
    model: Model, penalty: Penalty, rows: AgnosticRows, theta: Array, weighting: Weighting
) -> ThetaSums:
    """A client's answer to a theta step's query."""
    w = weighting.start + rows.kernel @ weighting.alpha
    factor = rows.paired * (w * rows.s - weighting.sbar)

    def losses(at: Array) -> Array:
        return cross_entropy(model.scores(at, rows.x), rows.y)

    def penalised(at: Array) -> tuple[Array, Array]:
        terms = factor * model.scores(at, rows.x)[:, 0]
        return (terms**2 if penalty == "squares" else terms).sum(), terms.sum()

    row_loss, pull_back = jax.vjp(losses, theta)
    penalty_grad, covariance = jax.grad(penalised, has_aux=True)(theta)
    return ThetaSums(row_loss.sum(), covariance, pull_back(w)[0], penalty_grad)
