"""LCO over silos: an augmented Lagrangian whose multipliers never leave the silos.

    repeat   minimise sum_i A_i(theta) by Newton, from where the last minimisation ended
             every silo takes its dual step at that point, inside the next question
             raise rho where the violation did not fall to a quarter

until sum_i max(|D_i| - epsilon, 0)^2 is as small as the tolerance. Only sums travel; the server
sees neither a D_i nor a multiplier. A resumed run finds the silos with multipliers at zero and
starts from the point it stood on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.compute import jax, jnp
from fairsilo.data.encoder import Encoder
from fairsilo.engine import Outcome
from fairsilo.engine.loop import drive
from fairsilo.fairness.constraint import Totals
from fairsilo.flower.local_silo import EXTRA
from fairsilo.flower.network import unflatten
from fairsilo.flower.session import Lost, Session
from fairsilo.model.base import Model
from fairsilo.solver import Newton, Order, Query, Record, Status, Sums

RHO, GROWTH, RHO_MAX = 10.0, 4.0, 1e4
TURNS = 40
"""The most dual steps."""
TOLERANCE = 1e-6


class Resumed(Exception):
    """The journal is at its end: from here on the silos answer, with multipliers at zero."""


class LocalSession(Session):
    """A session whose constraints are the silos' own."""

    rho, turn, squares, loss = RHO, 0, 0.0, 0.0
    extra: Floats = np.zeros(EXTRA)
    replaying = True

    def solve(self, encoder: Encoder, model: Model, totals: Totals) -> tuple[Outcome, Totals]:
        """Minimise, let the silos take their dual steps, again until all constraints hold."""
        before = np.inf
        status = Status.RUNNING
        while self.turn < TURNS and len(self.records) < self.charter.rounds:
            left = self.charter.rounds - len(self.records)
            try:
                ended = drive(
                    Newton(tolerance=TOLERANCE / 10), self.answer, self.theta, np.zeros(0), left,
                    self._watch,
                )  # fmt: skip
            except Lost:
                totals = self._count()
                continue
            except Resumed:
                continue
            self.theta, status = np.asarray(ended.theta), ended.status
            violated = float(np.sqrt(self.squares))
            if status is not Status.CONVERGED and left <= ended.rounds:
                break
            if violated <= TOLERANCE:
                break
            if violated > before / 4:
                self.rho = min(self.rho * GROWTH, RHO_MAX)
            before, self.turn = violated, self.turn + 1
        if np.sqrt(self.squares) > TOLERANCE and status is Status.CONVERGED:
            status = Status.STALLED if self.turn >= TURNS else Status.RUNNING
        history: Record = jax.tree.map(lambda *leaves: np.stack(leaves), *self.records)
        return Outcome(self.theta, status, len(self.records), history), totals

    def answer(self, query: Query, order: Order) -> Sums:
        """The augmented Lagrangian at theta: one sum over the silos."""
        self.asked = np.asarray(query.theta)
        if self.replaying and self.journal.old and self.journal.exhausted:
            self.replaying = False
            raise Resumed
        vector = self._sum("local", theta=self.asked, mu=np.array([self.rho, float(self.turn)]))
        self.extra = vector[-EXTRA:]
        sums = unflatten(vector[:-EXTRA], Order.SECOND, self.width, 0)
        return replace(sums, d=jnp.zeros(0), jac=jnp.zeros((0, self.width)))

    def _watch(self, number: int, record: Record) -> None:
        """In the history: the plain loss, and the root of the summed squared violations."""
        if not self.records or float(record.step) > 0 or number == 1:
            self.loss, self.squares = map(float, self.extra)
        told = replace(
            record, loss=jnp.asarray(self.loss), violation=jnp.sqrt(jnp.asarray(self.squares))
        )
        super()._watch(number, told)
