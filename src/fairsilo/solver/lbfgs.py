"""L-BFGS-SQP: needs only sums of gradients, so it works for models of any size.

The Hessian of the Lagrangian is approximated from the last `memory` steps; its inverse
is applied by the two-loop recursion to grad L and to each grad D_k, which is all that the
program of `subproblem` needs. A rejected trial shortens the step and costs one round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fairsilo.compute import Array, jax, jnp
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Memory:
    """The last steps s and the changes y of the Lagrangian's gradient, newest last."""

    s: Array
    y: Array
    scale: Array
    """The inverse Hessian before any pair: scale * I."""

    def apply(self, vector: Array) -> Array:
        """The inverse Hessian times a vector (two-loop recursion). Empty pairs are zero."""
        ys = jnp.sum(self.s * self.y, axis=1)
        rho = jnp.where(ys > 0, 1 / jnp.where(ys > 0, ys, 1), 0)

        def backward(q: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            s, y, r = pair
            a = r * (s @ q)
            return q - a * y, a

        def forward(z: Array, pair: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
            s, y, r, a = pair
            return z + s * (a - r * (y @ z)), None

        q, a = jax.lax.scan(backward, vector, (self.s, self.y, rho), reverse=True)
        z, _ = jax.lax.scan(forward, self.scale * q, (self.s, self.y, rho, a))
        return z

    def push(self, s: Array, y: Array) -> Memory:
        """Add a pair, damped (Powell) so that the matrix stays positive definite."""
        ss, sy = s @ s, s @ y
        base = ss / self.scale
        short = sy < 0.2 * base
        weight = jnp.where(short, 0.8 * base / jnp.where(short, base - sy, 1), 1.0)
        y = jnp.where(short, weight * y + (1 - weight) * s / self.scale, y)
        sy = s @ y
        usable = (ss > 0) & (sy > 0)
        new = Memory(
            jnp.roll(self.s, -1, axis=0).at[-1].set(s),
            jnp.roll(self.y, -1, axis=0).at[-1].set(y),
            sy / jnp.maximum(y @ y, 1e-300),
        )
        return choose(usable, new, self)  # type: ignore[no-any-return]


@jax.tree_util.register_dataclass
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

    def init(self, theta0: Array, epsilon: Array) -> LbfgsState:
        """The first trial is theta0 itself, which is always accepted."""
        p, k = theta0.shape[0], epsilon.shape[0]
        zero = jnp.zeros((), theta0.dtype)
        none = jnp.zeros_like(epsilon)
        pairs = jnp.zeros((self.memory, p), theta0.dtype)
        return LbfgsState(
            theta=theta0,
            mu=none,
            sums=Sums(zero + jnp.inf, none, theta0 * 0, jnp.zeros((k, p), theta0.dtype)),
            memory=Memory(pairs, pairs, zero + 1),
            direction=theta0 * 0,
            length=zero + 1,
            slope=zero,
            rho=zero + self.rho,
            epsilon=epsilon,
            k=jnp.zeros((), jnp.int32),
            rejected=jnp.zeros((), jnp.int32),
            status=jnp.array(Status.RUNNING, jnp.int32),
            record=Record(zero, none, none, zero, zero, zero),
        )

    def query(self, state: LbfgsState) -> Query:
        """The trial point."""
        return Query(state.theta + state.length * state.direction, state.mu)

    def step(self, state: LbfgsState, sums: Sums) -> LbfgsState:
        """Accept the trial and choose a new direction, or shorten the step."""
        first = state.k == 0
        finite = all_finite(sums)
        before = merit(state.sums.loss, state.sums.d, state.epsilon, state.rho)
        after = merit(sums.loss, sums.d, state.epsilon, state.rho)
        noise = 1e-13 * (1 + jnp.abs(after))
        armijo = after <= before + 1e-4 * state.length * state.slope + noise
        accept = finite & (first | armijo)
        walked = self._walk(state, sums, first)
        shortened = self._shorten(state, before, after, finite)
        new: LbfgsState = choose(accept, walked, shortened)
        rejected = jnp.where(accept, 0, state.rejected + 1)
        status = jnp.where(
            (new.record.residual <= self.tolerance) & (new.record.violation <= self.tolerance),
            Status.CONVERGED,
            jnp.where(rejected >= self.patience, Status.STALLED, Status.RUNNING),
        )
        status = jnp.where(first & ~finite, Status.DIVERGED, status).astype(jnp.int32)
        return replace(new, k=state.k + 1, rejected=rejected.astype(jnp.int32), status=status)

    def _walk(self, state: LbfgsState, sums: Sums, first: Array) -> LbfgsState:
        """Make the trial the new point, update the memory, then choose a direction."""
        assert sums.jac is not None
        assert state.sums.jac is not None
        theta = state.theta + state.length * state.direction
        taken = theta - state.theta
        # y is the change of the Lagrangian's gradient at the multipliers of the step.
        change = sums.grad - state.sums.grad + (sums.jac - state.sums.jac).T @ state.mu
        started = replace(state.memory, scale=1 / jnp.maximum(jnp.linalg.norm(sums.grad), 1e-8))
        # A solver of rates starts it anew with the memory that it had.
        empty = first & ~jnp.any(state.memory.s)
        memory: Memory = choose(empty, started, state.memory.push(taken, change))

        inv_grad = memory.apply(sums.grad)
        inv_jac = jax.vmap(memory.apply)(sums.jac)
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
            jnp.max(jnp.abs(mu), initial=0.0) > 0.99 * state.rho
        )
        rho = jnp.where(short, jnp.minimum(4 * state.rho, self.rho_max), state.rho)
        # Linear model of the merit at length 1; by convexity an upper bound of the slope.
        slope = (
            sums.grad @ direction
            + merit(sums.loss, linear, state.epsilon, rho)
            - merit(sums.loss, sums.d, state.epsilon, rho)
        )
        residual = kkt_residual(sums.grad + sums.jac.T @ mu, sums.d, mu, state.epsilon)
        record = Record(
            sums.loss,
            sums.d,
            mu,
            jnp.max(jnp.abs(taken)),
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
            length=jnp.ones_like(state.length),
            slope=slope,
            rho=rho,
            record=record,
        )

    def _shorten(self, state: LbfgsState, before: Array, after: Array, finite: Array) -> LbfgsState:
        """Scale the step to the minimum of the merit's parabola, by a factor in [0.1, 0.5]."""
        rise = after - before - state.length * state.slope
        factor = -state.length * state.slope / (2 * jnp.maximum(rise, 1e-300))
        factor = jnp.where(finite, jnp.clip(factor, 0.1, 0.5), 0.1)
        record = replace(state.record, step=jnp.zeros_like(state.record.step))
        return replace(state, length=state.length * factor, record=record)
