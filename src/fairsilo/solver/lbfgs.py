"""L-BFGS-SQP: needs only sums of gradients, so it works for models of any size.

The Hessian of the Lagrangian is approximated from the last `memory` steps on top of a diagonal
that every step renews; its inverse is applied by the two-loop recursion to grad L and to each
grad D_k, which is all that the program of `subproblem` needs. A rejected trial shortens the step
and costs one round.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from fairsilo.arrays import Array, traced
from fairsilo.numerics import library, put, repeated
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
from fairsilo.solver.subproblem import merit, solve_dual


@traced
@dataclass(frozen=True)
class Memory:
    """The last steps s and the changes y of the Lagrangian's gradient, newest last."""

    s: Array
    y: Array
    scale: Array
    """The diagonal of the inverse Hessian before any pair: columns that are rarely nonzero bend
    the loss little, so their steps are longer (Gilbert and Lemarechal 1989)."""

    def apply(self, vectors: Array) -> Array:
        """The inverse Hessian times each row (two-loop recursion). Empty pairs are zero."""
        xp, last = library(vectors), len(self.s) - 1
        ys = xp.sum(self.s * self.y, axis=1)
        rho = xp.where(ys > 0, 1 / xp.where(ys > 0, ys, 1), 0)

        def backward(i: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
            q, every = now
            a = rho[last - i] * (q @ self.s[last - i])
            return q - a[:, None] * self.y[last - i], put(every, last - i, a)

        def forward(i: Array, z: Array) -> Array:
            return z + (a[i] - rho[i] * (z @ self.y[i]))[:, None] * self.s[i]

        none = xp.zeros((len(self.s), len(vectors)), vectors.dtype)
        q, a = repeated(xp, len(self.s), backward, (vectors, none))
        return repeated(xp, len(self.s), forward, self.scale * q)

    def push(self, s: Array, y: Array) -> Memory:
        """Add a pair, damped (Powell) so that the matrix stays positive definite."""
        xp = library(s)
        sy, base = s @ y, s @ (s / self.scale)
        short = sy < 0.2 * base
        weight = xp.where(short, 0.8 * base / xp.where(short, base - sy, 1), 1.0)
        y = xp.where(short, weight * y + (1 - weight) * s / self.scale, y)
        sy = s @ y
        usable = (base > 0) & (sy > 0)
        bend = y @ (self.scale * y)
        inverse = (
            bend / self.scale + y**2 - bend * (s / self.scale) ** 2 / xp.where(usable, base, 1)
        )
        new = Memory(
            put(xp.roll(self.s, -1, axis=0), -1, s),
            put(xp.roll(self.y, -1, axis=0), -1, y),
            sy / xp.maximum(inverse, 1e-300),
        )
        return choose(usable, new, self)  # type: ignore[no-any-return]


@traced
@dataclass(frozen=True)
class LbfgsState:
    """The accepted point with its sums, the direction from it, and the step length tried."""

    theta: Array
    mu: Array
    sums: Sums
    memory: Memory
    direction: Array
    length: Array
    slope: Array
    """Directional derivative of the merit, negative."""
    rho: Array
    epsilon: Array
    k: Array
    rejected: Array
    status: Array
    record: Record


@dataclass(frozen=True)
class Lbfgs:
    """L-BFGS-SQP with `memory` pairs."""

    name: ClassVar[str] = "lbfgs"
    order: ClassVar[Order] = Order.FIRST

    memory: int = 40
    tolerance: float = 3e-5
    rho: float = 1.0
    rho_max: float = 1e6
    patience: int = 30
    # Not in the name by which results are stored: they are of before it (docs/results.md).
    reach: float = field(default=1.0, repr=False)
    """No trial is further away, in any parameter, than `reach` times 1 + the largest parameter:
    longer ones are rejected anyway, at points at which silos may not answer."""

    def init(self, theta0: Array, epsilon: Array) -> LbfgsState:
        """The first trial is theta0 itself, which is always accepted."""
        xp, p, k = library(theta0), theta0.shape[0], epsilon.shape[0]
        zero = xp.zeros((), theta0.dtype)
        none = xp.zeros_like(epsilon)
        pairs = xp.zeros((self.memory, p), theta0.dtype)
        return LbfgsState(
            theta=theta0,
            mu=none,
            sums=Sums(zero + xp.inf, none, theta0 * 0, xp.zeros((k, p), theta0.dtype)),
            memory=Memory(pairs, pairs, xp.ones_like(theta0)),
            direction=theta0 * 0,
            length=zero + 1,
            slope=zero,
            rho=zero + self.rho,
            epsilon=epsilon,
            k=xp.zeros((), xp.int32),
            rejected=xp.zeros((), xp.int32),
            status=xp.array(Status.RUNNING, xp.int32),
            record=Record(zero, none, none, zero, zero, zero),
        )

    def query(self, state: LbfgsState) -> Query:
        """The trial point."""
        return Query(state.theta + state.length * state.direction, state.mu)

    def step(self, state: LbfgsState, sums: Sums) -> LbfgsState:
        """Accept the trial and choose a new direction, or shorten the step."""
        xp = library(state.theta)
        first = state.k == 0
        finite = all_finite(sums)
        before = merit(state.sums.loss, state.sums.d, state.epsilon, state.rho)
        after = merit(sums.loss, sums.d, state.epsilon, state.rho)
        noise = 1e-13 * (1 + xp.abs(after))
        armijo = after <= before + 1e-4 * state.length * state.slope + noise
        accept = finite & (first | armijo)
        walked = self._walk(state, sums, first)
        shortened = self._shorten(state, before, after, finite)
        new: LbfgsState = choose(accept, walked, shortened)
        rejected = xp.where(accept, 0, state.rejected + 1)
        status = xp.where(
            (new.record.residual <= self.tolerance) & (new.record.violation <= self.tolerance),
            Status.CONVERGED,
            xp.where(rejected >= self.patience, Status.STALLED, Status.RUNNING),
        )
        status = xp.where(first & ~finite, Status.DIVERGED, status).astype(xp.int32)
        return replace(new, k=state.k + 1, rejected=rejected.astype(xp.int32), status=status)

    def _walk(self, state: LbfgsState, sums: Sums, first: Array) -> LbfgsState:
        """Make the trial the new point, update the memory, then choose a direction."""
        xp = library(state.theta)
        assert sums.jac is not None
        assert state.sums.jac is not None
        theta = state.theta + state.length * state.direction
        taken = theta - state.theta
        # y is the change of the Lagrangian's gradient at the multipliers of the step.
        change = sums.grad - state.sums.grad + (sums.jac - state.sums.jac).T @ state.mu
        started = replace(
            state.memory, scale=xp.ones_like(theta) / xp.maximum(xp.linalg.norm(sums.grad), 1e-8)
        )
        # A solver of rates starts it anew with the memory that it had.
        empty = first & ~xp.any(state.memory.s)
        memory: Memory = choose(empty, started, state.memory.push(taken, change))

        inverse = memory.apply(xp.concatenate([sums.grad[None], sums.jac]))
        inv_grad, inv_jac = inverse[0], inverse[1:]
        mu = solve_dual(
            inv_jac @ sums.jac.T,
            inv_jac @ sums.grad - sums.d,
            state.epsilon,
            state.rho,
            state.mu,
        )
        direction = -(inv_grad + inv_jac.T @ mu)
        linear = sums.d + sums.jac @ direction
        short = (violation(linear, state.epsilon) > self.tolerance) & (
            xp.max(xp.abs(mu), initial=0.0) > 0.99 * state.rho
        )
        rho = xp.where(short, xp.minimum(4 * state.rho, self.rho_max), state.rho)
        # Linear model of the merit at length 1; by convexity an upper bound of the slope.
        slope = (
            sums.grad @ direction
            + merit(sums.loss, linear, state.epsilon, rho)
            - merit(sums.loss, sums.d, state.epsilon, rho)
        )
        farthest = self.reach * (1 + xp.max(xp.abs(theta)))
        length = xp.minimum(1.0, farthest / xp.maximum(xp.max(xp.abs(direction)), 1e-300))
        residual = kkt_residual(sums.grad + sums.jac.T @ mu, sums.d, mu, state.epsilon)
        record = Record(
            sums.loss,
            sums.d,
            mu,
            xp.max(xp.abs(taken)),
            residual,
            violation(sums.d, state.epsilon),
        )
        return replace(
            state,
            theta=theta,
            mu=mu,
            sums=sums,
            memory=memory,
            direction=direction,
            length=length,
            slope=slope,
            rho=rho,
            record=record,
        )

    def _shorten(self, state: LbfgsState, before: Array, after: Array, finite: Array) -> LbfgsState:
        """Scale the step to the minimum of the merit's parabola, by a factor in [0.1, 0.5]."""
        xp = library(state.theta)
        rise = after - before - state.length * state.slope
        factor = -state.length * state.slope / (2 * xp.maximum(rise, 1e-300))
        factor = xp.where(finite, xp.clip(factor, 0.1, 0.5), 0.1)
        record = replace(state.record, step=xp.zeros_like(state.record.step))
        return replace(state, length=state.length * factor, record=record)
