"""Alternating gradient projection, exactly as printed in the paper (section IV-D).

    theta^{k+1}    = theta^k - alpha * grad(L + mu^k D)(theta^k),   mu^k = lambda_a^k - lambda_b^k
    lambda_a^{k+1} = max((1 - gamma beta) lambda_a^k + beta D(theta^k) - beta epsilon, 0)
    lambda_b^{k+1} = max((1 - gamma beta) lambda_b^k - beta D(theta^k) - beta epsilon, 0)

The dual step uses theta^k, not theta^{k+1}. alpha is multiplied by 0.1 every
20,000 steps. The fixed point is that of the regularised problem: an active
constraint ends at |D| = epsilon + gamma * lambda, and the residual measures the
distance of theta and lambda from that point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairsilo.arrays import Array, traced
from fairsilo.numerics import library
from fairsilo.solver.base import (
    Order,
    Query,
    Record,
    Status,
    Sums,
    all_finite,
    choose,
    violation,
)


@traced
@dataclass(frozen=True)
class AgpState:
    """theta^k, lambda_a^k, lambda_b^k and the record of the last answer."""

    theta: Array
    lambda_a: Array
    lambda_b: Array
    epsilon: Array
    k: Array
    status: Array
    record: Record


@dataclass(frozen=True)
class Agp:
    """The paper's solver with the paper's settings."""

    name: ClassVar[str] = "agp"
    order: ClassVar[Order] = Order.LAGRANGIAN

    alpha: float = 0.05
    beta: float = 0.05
    gamma: float = 0.001
    decay: float = 0.1
    decay_every: int = 20_000
    tolerance: float = 1e-5
    width: float = 0.0
    """How far from its limit a gap may be and count as at it: rates are steps."""

    def init(self, theta0: Array, epsilon: Array) -> AgpState:
        """theta as given, lambda = 0."""
        xp = library(theta0)
        zero = xp.zeros_like(epsilon)
        nothing = xp.zeros((), theta0.dtype)
        record = Record(nothing, zero, zero, nothing, nothing, nothing)
        running = xp.array(Status.RUNNING, xp.int32)
        return AgpState(theta0, zero, zero, epsilon, xp.zeros((), xp.int32), running, record)

    def query(self, state: AgpState) -> Query:
        """theta^k and mu^k = lambda_a^k - lambda_b^k."""
        return Query(state.theta, state.lambda_a - state.lambda_b)

    def step(self, state: AgpState, sums: Sums) -> AgpState:
        """One round: the primal and the dual step, both from theta^k."""
        xp = library(state.theta)
        decays = (state.k // self.decay_every).astype(sums.grad.dtype)
        alpha = self.alpha * self.decay**decays
        theta = state.theta - alpha * sums.grad
        keep = 1 - self.gamma * self.beta
        lambda_a = xp.maximum(
            keep * state.lambda_a + self.beta * sums.d - self.beta * state.epsilon, 0
        )
        lambda_b = xp.maximum(
            keep * state.lambda_b - self.beta * sums.d - self.beta * state.epsilon, 0
        )
        moved = xp.abs(lambda_a - state.lambda_a) + xp.abs(lambda_b - state.lambda_b)
        off = xp.maximum(xp.max(moved, initial=0.0) / self.beta - self.width, 0)
        residual = xp.maximum(xp.max(xp.abs(sums.grad)), off)
        record = Record(
            loss=sums.loss,
            d=sums.d,
            mu=state.lambda_a - state.lambda_b,
            step=alpha * xp.max(xp.abs(sums.grad)),
            residual=residual,
            violation=violation(sums.d, state.epsilon),
        )
        finite = all_finite(sums)
        # A diverged run keeps its last finite point, so that it can be inspected.
        theta, lambda_a, lambda_b = choose(
            finite,
            (theta, lambda_a, lambda_b),
            (state.theta, state.lambda_a, state.lambda_b),
        )
        record = choose(finite, record, state.record)
        status = xp.where(
            finite,
            xp.where(residual <= self.tolerance, Status.CONVERGED, Status.RUNNING),
            Status.DIVERGED,
        ).astype(xp.int32)
        return AgpState(theta, lambda_a, lambda_b, state.epsilon, state.k + 1, status, record)
