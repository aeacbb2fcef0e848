"""Newton-SQP under noise: few rounds, one curvature matrix, every step accepted.

The step is that of `newton`: the quadratic program of `subproblem` at (g, J, D) with the matrix B.
Because of the noise it differs in three ways:

    B        the released curvature of L with negative eigenvalues set to zero, plus ridge * I; the
             ridge is a multiple of the gradient's noise, so that steps are small where noise rules
    D, J     the D_k are smoothed before the multipliers follow them: the new answer counts `gain`,
             the last estimate, moved along J to the new point, 1 - gain
    no merit  a comparison of two noisy losses would reject good steps, and each costs budget

Where the curvature follows from counts of columns that may go together (`counted`), it can be too
small along a step. Two gradients tell: if theirs grew by more along the last step than B and the
noise explain, B is stretched by that much from then on.

It runs all the rounds that the budget was planned for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from fairsilo.arrays import Array, traced
from fairsilo.numerics import eigh, library
from fairsilo.solver.base import (
    Order,
    Query,
    Record,
    Status,
    Sums,
    all_finite,
    kkt_residual,
    violation,
)
from fairsilo.solver.subproblem import solve_dual


@traced
@dataclass(frozen=True)
class NoisyState:
    """The current point, and the smoothed estimates of D and its gradients."""

    theta: Array
    mu: Array
    d: Array
    jac: Array
    moved: Array
    """The last step."""
    grad: Array
    """The gradient of L before it."""
    stretch: Array
    """How many times B is the curvature as given."""
    epsilon: Array
    k: Array
    status: Array
    record: Record


@dataclass(frozen=True)
class Noisy:
    """Newton-SQP for sums with noise."""

    name: ClassVar[str] = "newton"
    order: ClassVar[Order] = Order.SECOND

    rounds: int
    noise: float
    """The standard deviation of the noise in a coordinate of grad L."""
    scale: float = 1.0
    """The largest trace of one row's curvature; the unit of the ridge."""
    gain: float = 0.5
    rho: float = 1.0
    """The largest multiplier."""
    counted: bool = False
    """Whether the curvature follows from counts; then a penalty holds what noise drowns."""

    @property
    def tolerance(self) -> float:
        """Residuals below this cannot be told from noise."""
        return 4 * self.noise

    @property
    def ridge(self) -> float:
        """The number added to every eigenvalue of the curvature."""
        if self.counted:
            return 4 * self.noise
        return max(1e-3 * self.scale, 8 * self.noise * math.sqrt(self.scale))

    def init(self, theta0: Array, epsilon: Array) -> NoisyState:
        """The state at theta0, with multipliers zero."""
        xp = library(theta0)
        zero, none = xp.zeros((), theta0.dtype), xp.zeros_like(epsilon)
        return NoisyState(
            theta=theta0,
            mu=none,
            d=none,
            jac=xp.zeros((epsilon.shape[0], theta0.shape[0]), theta0.dtype),
            moved=xp.zeros_like(theta0),
            grad=xp.zeros_like(theta0),
            stretch=xp.ones((), theta0.dtype),
            epsilon=epsilon,
            k=xp.zeros((), xp.int32),
            status=xp.array(Status.RUNNING, xp.int32),
            record=Record(zero, none, none, zero, zero, zero),
        )

    def query(self, state: NoisyState) -> Query:
        """The current point and its multipliers; there is no trial point."""
        return Query(state.theta, state.mu)

    def step(self, state: NoisyState, sums: Sums) -> NoisyState:
        """One step of the quadratic program, accepted whatever the losses."""
        xp = library(state.theta)
        assert sums.jac is not None
        assert sums.hess is not None
        gain = xp.where(state.k == 0, 1.0, self.gain)
        d = (1 - gain) * (state.d + state.jac @ state.moved) + gain * sums.d
        jac = (1 - gain) * state.jac + gain * sums.jac

        values, vectors = eigh((sums.hess + sums.hess.T) / 2)
        stretch = self._stretch(state, sums)
        bent = stretch * xp.maximum(values, 0) + self.ridge
        g, j = vectors.T @ sums.grad, jac @ vectors
        over = j / bent
        rho = xp.asarray(self.rho, d.dtype)
        mu = solve_dual(over @ j.T, over @ g - d, state.epsilon, rho, state.mu)
        moved = -vectors @ ((g + j.T @ mu) / bent)

        finite = all_finite(moved) & all_finite(sums)
        moved = xp.where(finite, moved, 0.0)
        residual = kkt_residual(sums.grad + jac.T @ mu, d, mu, state.epsilon)
        violated = violation(d, state.epsilon)
        record = Record(sums.loss, d, mu, xp.max(xp.abs(moved)), residual, violated)
        last = state.k + 1 >= self.rounds
        settled = last & (residual <= self.tolerance) & (violated <= self.tolerance)
        status = xp.where(settled, Status.CONVERGED, Status.RUNNING)
        status = xp.where(finite, status, Status.DIVERGED).astype(xp.int32)
        return NoisyState(
            state.theta + moved, mu, d, jac, moved, sums.grad, stretch,
            state.epsilon, state.k + 1, status, record,
        )  # fmt: skip

    def _stretch(self, state: NoisyState, sums: Sums) -> Array:
        """How many times the curvature must be what is given, by the last two gradients."""
        if not self.counted or sums.hess is None:
            return state.stretch
        xp, moved = library(state.theta), state.moved
        given = moved @ sums.hess @ moved
        noise = 2 * math.sqrt(2) * self.noise * xp.sqrt(moved @ moved)
        seen = moved @ (sums.grad - state.grad) - noise
        # Before the first step nothing is seen.
        return xp.maximum(state.stretch, seen / xp.where(given > 0, given, 1.0))
