"""Limits on rates: any solver, with gaps of true errors that a smooth surrogate follows.

The gap of true errors D_k is a step function, so a solver is given

    q_k(theta) + o_k          o_k: what is missing from the surrogate's gap to the true one

which is smooth, and the offsets are renewed from the true gaps as it comes near the solution of
that problem (restarted there, which costs no round). At the end grad L + sum_k mu_k grad q_k = 0
to the inner solver's tolerance, every true gap is within its limit, and mu_k is zero unless the
true gap is at most `width` below it: an equilibrium of the game of Cotter, Jiang and Sridharan
(2019). Where rates have larger steps than that, the width is doubled every few renewals, up to
eight times the first; a solution further below its limit than that is not called one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fairsilo.arrays import Array, traced
from fairsilo.numerics import either, library
from fairsilo.solver.base import Order, Query, Record, Status, Sums, choose, violation

LEAST, MOST = 0.4, 2.5
"""Bounds of how much faster the true gap moves than the surrogate's."""
PATIENCE, EVERY = 3, 2
"""After so many renewals of the offsets the width is doubled, and then every so many."""
DOUBLINGS = 3
"""At most."""
LONGEST = 60
"""After so many renewals the solver gives up."""
AS_GOOD = 5e-3
"""Rates are steps, so that a point on the way within the limits can have less loss than the
solution. Where it is less by no more than this, relative to it, the solution is returned; else that
point is, and training is called stalled."""


@traced
@dataclass(frozen=True)
class RatesState:
    """The inner solver's state, the offsets, and the point to return."""

    inner: Any
    sums: Sums
    """At the inner solver's accepted point."""
    offset: Array
    slope: Array
    last_true: Array
    last_smooth: Array
    """The gaps when the offsets were last renewed."""
    renewals: Array
    epsilon: Array
    kept: Array
    """1 once a point within the limits was found; theta is then the one with the least loss, or a
    solution that is as good."""
    theta: Array
    k: Array
    status: Array
    record: Record


@dataclass(frozen=True)
class Rates:
    """A solver for limits on rates."""

    inner: Any
    """A solver for limits on losses."""
    width: float
    """How far below its limit a gap counts as at it: a step or two of the rates."""
    free: bool = False
    """Whether it begins at the model without limits, which is the answer where it keeps to them."""

    @property
    def name(self) -> str:
        """The inner solver's."""
        return str(self.inner.name)

    @property
    def order(self) -> Order:
        """The inner solver's."""
        order: Order = self.inner.order
        return order

    @property
    def tolerance(self) -> float:
        """The largest KKT residual; of violations, none is tolerated."""
        return float(self.inner.tolerance)

    @property
    def _follows(self) -> bool:
        """Whether the inner solver compares points by their gaps. AGP does not, and sees the true
        ones."""
        return self.order is not Order.LAGRANGIAN

    def init(self, theta0: Array, epsilon: Array) -> RatesState:
        """The surrogate is taken for the truth until the first answer."""
        xp, p, k = library(theta0), theta0.shape[0], epsilon.shape[0]
        zero, none = xp.zeros((), theta0.dtype), xp.zeros_like(epsilon)
        jac = xp.zeros((k, p), theta0.dtype) if self._follows else None
        hess = xp.eye(p, dtype=theta0.dtype) if self.order is Order.SECOND else None
        never = xp.zeros((), xp.int32)
        return RatesState(
            inner=self.inner.init(theta0, self._aim(epsilon, never)),
            sums=Sums(zero, xp.concatenate([none, none]), theta0 * 0, jac, hess),
            offset=none,
            slope=none + 1,
            last_true=none,
            last_smooth=none,
            renewals=never,
            epsilon=epsilon,
            kept=never,
            theta=theta0,
            k=never,
            status=xp.array(Status.RUNNING, xp.int32),
            record=Record(zero, none, none, zero, zero, zero),
        )

    def query(self, state: RatesState) -> Query:
        """The inner solver's."""
        query: Query = self.inner.query(state.inner)
        return query

    def step(self, state: RatesState, sums: Sums) -> RatesState:
        """A step of the inner solver; then, where the surrogate is off, new offsets."""
        if not self._follows:
            return self._step_by_truth(state, sums)
        xp = library(state.theta)
        true, smooth = xp.split(sums.d, 2)
        # Before the first answer nothing is known of the offsets.
        offset = xp.where(state.k == 0, true - smooth, state.offset)
        asked = self.query(state)
        inner = self.inner.step(state.inner, replace(sums, d=smooth + offset))
        here: Sums = choose(xp.all(inner.theta == asked.theta), sums, state.sums)
        state = replace(state, inner=inner, sums=here, offset=offset)
        true, smooth = xp.split(here.d, 2)

        width = self._width(state.epsilon, state.renewals)
        inner_record: Record = inner.record
        mu, settled = inner_record.mu, inner.status != Status.RUNNING
        at_limit = xp.sign(mu) * true >= state.epsilon - width
        holds = xp.all((xp.abs(true) <= state.epsilon) & ((mu == 0) | at_limit))
        off = xp.max(xp.abs(true - smooth - offset), initial=0.0)
        near = settled | (inner_record.residual <= 0.1 * off)
        renew = near & ~holds & (inner.status != Status.DIVERGED) & (state.renewals < LONGEST)
        now = state
        state = either(xp, renew, lambda: self._renewed(now), lambda: now)
        ended = xp.where(holds, inner.status, Status.STALLED)
        ended = xp.where(inner.status == Status.DIVERGED, inner.status, ended)
        status = xp.where(settled & ~renew, ended, Status.RUNNING)
        status = xp.where(self._kept(state, sums), Status.CONVERGED, status).astype(xp.int32)
        record = replace(inner_record, d=true, violation=violation(true, state.epsilon))
        return self._keep(replace(state, k=state.k + 1, status=status), inner.theta, record)

    def _renewed(self, state: RatesState) -> RatesState:
        """The inner solver, begun anew where it stands, with offsets from the true gaps there."""
        xp = library(state.theta)
        true, smooth = xp.split(state.sums.d, 2)
        moved, followed = true - state.last_true, smooth - state.last_smooth
        known = (xp.abs(followed) > self.width / 4) & (state.renewals > 0)
        slope = xp.where(known, moved / xp.where(known, followed, 1), state.slope)
        slope = xp.clip(slope, LEAST, MOST)
        renewals = (state.renewals + 1).astype(xp.int32)
        aim = self._aim(state.epsilon, renewals)
        # A secant step: where the true gap moves faster, ask for less of the surrogate's.
        mu = state.inner.record.mu
        bound = (mu != 0) | (xp.abs(true) > state.epsilon)
        side = xp.where(mu == 0, xp.sign(true), xp.sign(mu))
        missing = xp.where(bound, side * aim - true, 0)
        offset = true - smooth + (1 - 1 / slope) * missing
        fresh = self.inner.init(state.inner.theta, aim)
        kept = {
            name: getattr(state.inner, name)
            for name in ("mu", "rho", "memory", "damping")
            if hasattr(fresh, name)
        }
        inner = self.inner.step(replace(fresh, **kept), replace(state.sums, d=smooth + offset))
        return replace(
            state, inner=inner, offset=offset, slope=slope, last_true=true, last_smooth=smooth,
            renewals=renewals,
        )  # fmt: skip

    def _step_by_truth(self, state: RatesState, sums: Sums) -> RatesState:
        xp = library(sums.d)
        true, _ = xp.split(sums.d, 2)
        inner = self.inner.step(state.inner, replace(sums, d=true))
        record = replace(inner.record, d=true, violation=violation(true, state.epsilon))
        status = xp.where(self._kept(state, sums), Status.CONVERGED, inner.status).astype(xp.int32)
        return replace(
            state, inner=inner, theta=inner.theta, k=state.k + 1, status=status, record=record
        )

    def _kept(self, state: RatesState, sums: Sums) -> Array:
        """Whether the first point is the answer."""
        xp = library(state.theta)
        true, _ = xp.split(sums.d, 2)
        return self.free & (state.k == 0) & xp.all(xp.abs(true) <= state.epsilon)

    def _keep(self, state: RatesState, theta: Array, record: Record) -> RatesState:
        """The point to return: the solution, or the best within the limits where that is better."""
        xp, within = library(theta), record.violation <= 0
        converged = state.status == Status.CONVERGED
        least = xp.where(converged, 1 + AS_GOOD, 1.0) * state.record.loss
        take = (state.kept == 0) | (within & (record.loss < least))
        theta, record = choose(take, (theta, record), (state.theta, state.record))
        status = xp.where(converged & ~take, Status.STALLED, state.status).astype(xp.int32)
        kept = xp.maximum(state.kept, within).astype(xp.int32)
        return replace(state, theta=theta, record=record, kept=kept, status=status)

    def _width(self, epsilon: Array, renewals: Array) -> Array:
        xp = library(epsilon)
        doubled = xp.maximum(renewals - PATIENCE, 0) // EVERY
        return xp.minimum(self.width * 2.0 ** xp.minimum(doubled, DOUBLINGS), epsilon)

    def _aim(self, epsilon: Array, renewals: Array) -> Array:
        """The middle of what counts as at the limit."""
        share = 0.5 if self._follows else 1.0
        return (epsilon - share * self._width(epsilon, renewals)).astype(epsilon.dtype)
