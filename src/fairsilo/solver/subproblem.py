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

from fairsilo.arrays import Array, leafwise, traced
from fairsilo.numerics import library, put, repeated, repeated_while, solve_positive

SWEEPS = 10
TOLERANCE = 1e-11


def solve_dual(q: Array, b: Array, epsilon: Array, rho: Array, start: Array) -> Array:
    """The multipliers mu (K,) of the program above, found by iterating from `start`."""
    k = b.shape[0]
    if k == 0:
        return b
    xp, program = library(b), _Program(q, b, epsilon, rho)
    mu = program.sweeps(xp.clip(start, -rho, rho))
    begin = _Active(mu, xp.sign(mu), (mu != 0) & (xp.abs(mu) < rho), xp.asarray(0))
    # Each multiplier is fixed and freed a few times at most; the cap guards against rounding.
    last = repeated_while(
        xp,
        lambda a: (a.steps < 20 + 10 * k) & (program.error(a.mu) > TOLERANCE),
        program.step,
        begin,
    )
    return last.mu


@traced
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
        xp, diagonal = library(self.q), self.q.diagonal()
        return xp.maximum(diagonal, 1e-14 * xp.max(diagonal) + 1e-300)

    def sweeps(self, mu: Array) -> Array:
        """Coordinate descent; for one constraint this is the closed form."""
        xp, q, scale = library(mu), self.q, self.scale

        def coordinate(i: Array, mu: Array) -> Array:
            i = i % len(mu)
            rest = self.b[i] + q[i] @ mu - q[i, i] * mu[i]
            best = -_shrink(rest, self.epsilon[i]) / scale[i]
            return put(mu, i, xp.clip(best, -self.rho, self.rho))

        return repeated(xp, SWEEPS * len(mu), coordinate, mu)

    def error(self, mu: Array) -> Array:
        """How far mu is from mu = clip(shrink(mu - gradient)), relative to its size."""
        xp = library(mu)
        moved = _shrink(mu - (self.q @ mu + self.b) / self.scale, self.epsilon / self.scale)
        gap = xp.max(xp.abs(mu - xp.clip(moved, -self.rho, self.rho)))
        return gap / (1 + xp.max(xp.abs(mu)))

    def step(self, now: _Active) -> _Active:
        """Newton's step of the free multipliers, up to the first that reaches zero or the box.

        If none does, the fixed multiplier that would gain most is freed.
        """
        xp = library(now.mu)
        gradient = self.q @ now.mu + self.b
        free = now.free
        sloped = xp.where(free, gradient + now.sign * self.epsilon, 0)
        ridge = 1e-12 * xp.max(self.scale)
        matrix = xp.where(free[:, None] & free, self.q, 0) + xp.diag(xp.where(free, ridge, 1.0))
        direction = -solve_positive(matrix, sloped)

        wall = xp.where(direction * now.sign < 0, 0.0, now.sign * self.rho)
        moving = free & (direction != 0)
        reach = xp.where(moving, (wall - now.mu) / xp.where(moving, direction, 1), xp.inf)
        first = xp.argmin(reach)
        stopped = reach[first] < 1
        mu = xp.where(free, now.mu + xp.minimum(reach[first], 1) * direction, now.mu)
        mu = put(mu, first, xp.where(stopped, wall[first], mu[first]))
        mu = xp.clip(mu, -self.rho, self.rho)
        held = replace(now, mu=mu, free=put(free, first, free[first] & ~stopped))
        new: _Active = leafwise(
            lambda a, b: xp.where(stopped, a, b), held, self._release(replace(now, mu=mu))
        )
        return replace(new, steps=now.steps + 1)

    def _release(self, now: _Active) -> _Active:
        """Free the fixed multiplier for which leaving zero or the box lowers the value most."""
        xp = library(now.mu)
        gradient = self.q @ now.mu + self.b
        at_zero = now.mu == 0
        inward = now.sign * gradient + self.epsilon
        gain = xp.where(at_zero, xp.abs(gradient) - self.epsilon, inward)
        gain = xp.where(now.free, -xp.inf, gain / xp.sqrt(self.scale))
        best = xp.argmax(gain)
        wins = gain[best] > 0
        sign = xp.where(at_zero[best], -xp.sign(gradient[best]), now.sign[best])
        return replace(
            now,
            sign=put(now.sign, best, xp.where(wins, sign, now.sign[best])),
            free=put(now.free, best, now.free[best] | wins),
        )


def _shrink(r: Array, epsilon: Array) -> Array:
    """Soft threshold: r moved towards zero by epsilon."""
    xp = library(r)
    return xp.sign(r) * xp.maximum(xp.abs(r) - epsilon, 0)


def excess(d: Array, epsilon: Array) -> Array:
    """sum_k max(|D_k| - epsilon_k, 0)."""
    xp = library(d)
    return xp.sum(xp.maximum(xp.abs(d) - epsilon, 0))


def merit(loss: Array, d: Array, epsilon: Array, rho: Array) -> Array:
    """phi = L + rho * sum_k max(|D_k| - epsilon_k, 0): what an accepted step must reduce."""
    return loss + rho * excess(d, epsilon)
