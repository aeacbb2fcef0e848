"""Newton-SQP: the constrained optimum in a handful of rounds (docs/concepts/solvers.md).

Second-order information is a sum over rows, too. Each round the silos send L, grad L,
D_k, grad D_k and the Hessian of the Lagrangian at (theta, mu); the server makes that
matrix positive definite (absolute eigenvalues), adds a damping delta*I, solves the
quadratic program of `subproblem` and accepts the step by the merit function. A rejected
step raises delta and costs one more round; a good one lowers it.

The damping never falls below `ridge` times the largest eigenvalue: full one-hot columns
and an intercept make the Hessian singular, and a category with one row sends its
coefficient to infinity while the loss hardly moves. The damping only slows the steps in
those directions; the optimum remains that of the unregularised problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairsilo.arrays import Array, traced
from fairsilo.numerics import library, put, solve_bent
from fairsilo.solver.base import (
    Order,
    Query,
    Record,
    Status,
    Sums,
    all_finite,
    choose,
    kkt_residual,
    violation,
)
from fairsilo.solver.subproblem import excess, merit, solve_dual


@traced
@dataclass(frozen=True)
class NewtonState:
    """The accepted point with its sums, and the trial point of the next query."""

    theta: Array
    mu: Array
    sums: Sums
    past_loss: Array
    past_excess: Array
    """Loss and total violation of the last accepted points: see `Newton.watch`."""
    trial: Array
    predicted: Array
    """The decrease of the merit that the quadratic model predicts for the trial."""
    damping: Array
    rho: Array
    epsilon: Array
    k: Array
    best_loss: Array
    best_excess: Array
    """Loss and total violation of the point with the lowest merit so far, at the current rho."""
    idle: Array
    """Rounds since the merit last fell by more than rounding errors."""
    status: Array
    record: Record


@dataclass(frozen=True)
class Newton:
    """Newton-SQP for models small enough for a (p, p) matrix."""

    name: ClassVar[str] = "newton"
    order: ClassVar[Order] = Order.SECOND

    tolerance: float = 1e-6
    ridge: float = 1e-7
    """Where the rows say nothing, rounding errors move theta by up to 1e-16 / ridge."""
    rho: float = 1.0
    rho_max: float = 1e6
    watch: int = 4
    """A trial must beat the worst of the last `watch` accepted merits, not the last one: near
    the optimum a full step may first raise the violation (Maratos) and yet be the best step."""
    patience: int = 25
    """Rounds without progress after which the solver stops: a ReLU network is at a kink, where
    no gradient vanishes, or the constraints cannot be met."""
    reach: float = 5.0
    """No trial is further away, in any parameter, than `reach` times 1 + the largest parameter.
    Where losses are saturated there is next to no curvature, and steps of 1e6 would be tried (and
    rejected): points at which silos do not answer."""

    def init(self, theta0: Array, epsilon: Array) -> NewtonState:
        """The first trial is theta0 itself, which is always accepted."""
        xp, p, k = library(theta0), theta0.shape[0], epsilon.shape[0]
        zero = xp.zeros((), theta0.dtype)
        none = xp.zeros_like(epsilon)
        sums = Sums(
            zero + xp.inf, none, theta0 * 0, xp.zeros((k, p), theta0.dtype), xp.eye(p) * 1.0
        )
        return NewtonState(
            theta=theta0,
            mu=none,
            sums=sums,
            past_loss=xp.full(self.watch, -xp.inf, theta0.dtype),
            past_excess=xp.zeros(self.watch, theta0.dtype),
            trial=theta0,
            predicted=zero,
            damping=zero,
            rho=zero + self.rho,
            epsilon=epsilon,
            k=xp.zeros((), xp.int32),
            best_loss=zero + xp.inf,
            best_excess=zero,
            idle=xp.zeros((), xp.int32),
            status=xp.array(Status.RUNNING, xp.int32),
            record=Record(zero, none, none, zero, zero, zero),
        )

    def query(self, state: NewtonState) -> Query:
        """The trial point and the multipliers from the program that produced it."""
        return Query(state.trial, state.mu)

    def step(self, state: NewtonState, sums: Sums) -> NewtonState:
        """Accept or reject the trial, then solve for the next one."""
        xp = library(state.theta)
        first = state.k == 0
        finite = all_finite(sums)
        before = merit(state.sums.loss, state.sums.d, state.epsilon, state.rho)
        after = merit(sums.loss, sums.d, state.epsilon, state.rho)
        worst = xp.max(state.past_loss + state.rho * state.past_excess)
        noise = 1e-13 * (1 + xp.abs(after))
        accept = finite & (first | (after <= worst - 1e-4 * state.predicted + noise))
        past_loss, past_excess = choose(
            accept,
            (
                put(xp.roll(state.past_loss, 1), 0, sums.loss),
                put(xp.roll(state.past_excess, 1), 0, excess(sums.d, state.epsilon)),
            ),
            (state.past_loss, state.past_excess),
        )
        theta = xp.where(accept, state.trial, state.theta)
        moved = xp.max(xp.abs(theta - state.theta))
        kept: Sums = choose(accept, sums, state.sums)
        damping = self._next_damping(state, accept, before - after)

        trial, mu, predicted, rho = self._solve(theta, kept, damping, state)
        assert kept.jac is not None
        residual = kkt_residual(kept.grad + kept.jac.T @ mu, kept.d, mu, state.epsilon)
        violated = violation(kept.d, state.epsilon)
        best = state.best_loss + state.rho * state.best_excess
        better = accept & (first | (after < best - 1e-6 * xp.abs(after)))
        best_loss = xp.where(better, sums.loss, state.best_loss)
        best_excess = xp.where(better, excess(sums.d, state.epsilon), state.best_excess)
        idle = xp.where(better, 0, state.idle + 1).astype(xp.int32)
        status = xp.where(
            (residual <= self.tolerance) & (violated <= self.tolerance),
            Status.CONVERGED,
            xp.where(idle >= self.patience, Status.STALLED, Status.RUNNING),
        )
        status = xp.where(first & ~finite, Status.DIVERGED, status).astype(xp.int32)
        record = Record(kept.loss, kept.d, mu, moved, residual, violated)
        return NewtonState(
            theta, mu, kept, past_loss, past_excess, trial, predicted, damping, rho, state.epsilon,
            state.k + 1, best_loss, best_excess, idle, status, record,
        )  # fmt: skip

    def _next_damping(self, state: NewtonState, accept: Array, gain: Array) -> Array:
        """Levenberg-Marquardt: lower after a step as good as predicted, raise after a bad one."""
        xp = library(state.theta)
        ratio = gain / xp.maximum(state.predicted, 1e-300)
        lowered = xp.where(state.damping < 1e-6, 0.0, state.damping / 8)
        kept = xp.where(
            ratio > 0.75, lowered, xp.where(ratio < 0.25, state.damping * 2, state.damping)
        )
        raised = xp.maximum(state.damping * 10, 1e-3)
        damping = xp.where(accept, kept, raised)
        return xp.where(state.k == 0, state.damping, damping)

    def _solve(
        self, theta: Array, sums: Sums, damping: Array, state: NewtonState
    ) -> tuple[Array, Array, Array, Array]:
        """The next trial, its multipliers, the predicted gain and the penalty."""
        xp, epsilon, rho = library(theta), state.epsilon, state.rho
        assert sums.jac is not None
        assert sums.hess is not None
        right = xp.concatenate([sums.grad[None], sums.jac]).T
        hess = (sums.hess + sums.hess.T) / 2
        over = solve_bent(hess, damping, xp.asarray(self.ridge, hess.dtype), right)
        g_over, j_over = over[:, 0], over[:, 1:].T
        mu = solve_dual(j_over @ sums.jac.T, j_over @ sums.grad - sums.d, epsilon, rho, state.mu)
        along = -(g_over + j_over.T @ mu)
        linear = sums.d + sums.jac @ along
        farthest = self.reach * (1 + xp.max(xp.abs(theta)))
        part = xp.minimum(1.0, farthest / xp.maximum(xp.max(xp.abs(along)), 1e-300))
        along = part * along
        predicted = (
            merit(sums.loss, sums.d, epsilon, rho)
            - merit(sums.loss + sums.grad @ along, sums.d + sums.jac @ along, epsilon, rho)
            + 0.5 * part * along @ (sums.grad + sums.jac.T @ mu)
        )
        # A multiplier is at rho and the linearised constraint is still violated: raise rho.
        short = (violation(linear, epsilon) > self.tolerance) & (
            xp.max(xp.abs(mu), initial=0.0) > 0.99 * rho
        )
        rho = xp.where(short, xp.minimum(4 * rho, self.rho_max), rho)
        return theta + along, mu, predicted, rho
