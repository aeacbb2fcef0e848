"""The quadratic program of one SQP round, through its K-dimensional dual.

    min_d  g.d + d'Bd/2 + rho * sum_k max(|D_k + J_k d| - epsilon_k, 0)

The penalty makes it solvable even if the linearised constraints contradict
each other (the elastic mode). Its dual is a lasso with a box,

    min_mu  mu'Q mu/2 + b.mu + sum_k epsilon_k |mu_k|,   |mu_k| <= rho,
    Q = J B^-1 J',  b = J B^-1 g - D.

A few sweeps of coordinate descent find most of the multipliers that are zero or at the box; an
active-set method then finds the exact solution, even if Q is singular (the pairs of three groups,
or more clients than parameters).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairsilo.compute import Array, jax, jnp, solve_positive

SWEEPS = 10
TOLERANCE = 1e-11


def solve_dual(q: Array, b: Array, epsilon: Array, rho: Array, start: Array) -> Array:
    """The multipliers mu (K,) of the program above, found by iterating from `start`."""
    k = b.shape[0]
    if k == 0:
        return b
    program = _Program(q, b, epsilon, rho)
    mu = program.sweeps(jnp.clip(start, -rho, rho))
    begin = _Active(mu, jnp.sign(mu), (mu != 0) & (jnp.abs(mu) < rho), jnp.array(0))
    # Each multiplier is fixed and freed a few times at most; the cap guards against rounding.
    last: _Active = jax.lax.while_loop(
        lambda a: (a.steps < 20 + 10 * k) & (program.error(a.mu) > TOLERANCE),
        program.step,
        begin,
    )
    return last.mu


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Active:
    """A point, the sign each multiplier may have, and which of them may move."""

    mu: Array
    sign: Array
    free: Array
    steps: Array


@dataclass(frozen=True)
class _Program:
    q: Array
    b: Array
    epsilon: Array
    rho: Array

    @property
    def scale(self) -> Array:
        diagonal = jnp.diagonal(self.q)
        return jnp.maximum(diagonal, 1e-14 * jnp.max(diagonal) + 1e-300)

    def sweeps(self, mu: Array) -> Array:
        """Coordinate descent; for one constraint this is the closed form."""
        q, scale = self.q, self.scale

        def coordinate(i: Array, mu: Array) -> Array:
            i = i % len(mu)
            rest = self.b[i] + q[i] @ mu - q[i, i] * mu[i]
            best = -_shrink(rest, self.epsilon[i]) / scale[i]
            return mu.at[i].set(jnp.clip(best, -self.rho, self.rho))

        swept: Array = jax.lax.fori_loop(0, SWEEPS * len(mu), coordinate, mu)
        return swept

    def error(self, mu: Array) -> Array:
        """How far mu is from mu = clip(shrink(mu - gradient)), relative to its size."""
        moved = _shrink(mu - (self.q @ mu + self.b) / self.scale, self.epsilon / self.scale)
        gap = jnp.max(jnp.abs(mu - jnp.clip(moved, -self.rho, self.rho)))
        return gap / (1 + jnp.max(jnp.abs(mu)))

    def step(self, now: _Active) -> _Active:
        """Newton's step of the free multipliers, up to the first that reaches zero or the box.

        If none does, the fixed multiplier that would gain most is freed.
        """
        gradient = self.q @ now.mu + self.b
        free = now.free
        sloped = jnp.where(free, gradient + now.sign * self.epsilon, 0)
        ridge = 1e-12 * jnp.max(self.scale)
        matrix = jnp.where(free[:, None] & free, self.q, 0) + jnp.diag(jnp.where(free, ridge, 1.0))
        direction = -solve_positive(matrix, sloped)

        wall = jnp.where(direction * now.sign < 0, 0.0, now.sign * self.rho)
        moving = free & (direction != 0)
        reach = jnp.where(moving, (wall - now.mu) / jnp.where(moving, direction, 1), jnp.inf)
        first = jnp.argmin(reach)
        stopped = reach[first] < 1
        mu = jnp.where(free, now.mu + jnp.minimum(reach[first], 1) * direction, now.mu)
        mu = jnp.clip(
            mu.at[first].set(jnp.where(stopped, wall[first], mu[first])), -self.rho, self.rho
        )
        held = replace(now, mu=mu, free=free.at[first].set(free[first] & ~stopped))
        new: _Active = jax.tree.map(
            lambda a, b: jnp.where(stopped, a, b), held, self._release(replace(now, mu=mu))
        )
        return replace(new, steps=now.steps + 1)

    def _release(self, now: _Active) -> _Active:
        """Free the fixed multiplier for which leaving zero or the box lowers the value most."""
        gradient = self.q @ now.mu + self.b
        at_zero = now.mu == 0
        inward = now.sign * gradient + self.epsilon
        gain = jnp.where(at_zero, jnp.abs(gradient) - self.epsilon, inward)
        gain = jnp.where(now.free, -jnp.inf, gain / jnp.sqrt(self.scale))
        best = jnp.argmax(gain)
        wins = gain[best] > 0
        sign = jnp.where(at_zero[best], -jnp.sign(gradient[best]), now.sign[best])
        return replace(
            now,
            sign=now.sign.at[best].set(jnp.where(wins, sign, now.sign[best])),
            free=now.free.at[best].set(now.free[best] | wins),
        )


def _shrink(r: Array, epsilon: Array) -> Array:
    """Soft threshold: r moved towards zero by epsilon."""
    return jnp.sign(r) * jnp.maximum(jnp.abs(r) - epsilon, 0)


def excess(d: Array, epsilon: Array) -> Array:
    """sum_k max(|D_k| - epsilon_k, 0)."""
    return jnp.sum(jnp.maximum(jnp.abs(d) - epsilon, 0))


def merit(loss: Array, d: Array, epsilon: Array, rho: Array) -> Array:
    """phi = L + rho * sum_k max(|D_k| - epsilon_k, 0): what an accepted step must reduce."""
    return loss + rho * excess(d, epsilon)
