"""AF over silos: the schedule of `method.agnostic`, its sums asked for over the network.

    10 gradient steps in theta, then one linear program for the row weights, 20 times over

A round is a question. After the loss of a silo the question is asked again of the others.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.compute import jax
from fairsilo.data.encoder import Encoder
from fairsilo.engine import Outcome
from fairsilo.fairness.constraint import Totals
from fairsilo.flower.agnostic_silo import seen_columns
from fairsilo.flower.session import Lost, Session
from fairsilo.method.adversary import POINTS, ColumnSums, worst_weights
from fairsilo.method.agnostic import OUTER, RATE, STEPS
from fairsilo.method.agnostic_sums import AdversarySums
from fairsilo.model.base import Model
from fairsilo.solver import SOLVERS, Record, Status

AF_ROUNDS = OUTER * (STEPS + 1) - 1
"""Questions of the whole schedule."""


class AgnosticSession(Session):
    """A session whose solver is AF's game against the row weights."""

    def solve(self, encoder: Encoder, model: Model, totals: Totals) -> tuple[Outcome, Totals]:
        """As many turns of the schedule as the charter's rounds allow."""
        self.columns = len(seen_columns(self.charter, encoder))
        self.points = self._draw_points()
        self.counts = totals
        outer = min(OUTER, max((self.charter.rounds + 1) // (STEPS + 1), 1))
        theta, infeasible = self.theta, 0
        pair = self.charter.pairs[0]
        in_a, paired = totals.cells[pair.a].sum(), self._paired()
        weighting = np.concatenate([[1.0], np.zeros(POINTS), [in_a / paired]])
        for turn in range(outer):
            for _ in range(STEPS):
                grad, loss, gap = self._gradient(theta, weighting)
                theta = theta - RATE * grad
                size = float(np.abs(grad).max())
                self._note(loss, gap, RATE * size, size)
            if turn == outer - 1:
                break
            new, loss = self._attack(theta)
            infeasible += new is None
            weighting = weighting if new is None else new
            last = self.records[-1]
            self._note(loss, float(last.d[0]), 0.0, float(last.residual))
        if infeasible:
            self.notes.append(
                f"in {infeasible} of {outer - 1} alpha steps no weights met tau = "
                f"{self.charter.epsilon:g}, and the last ones were kept"
            )
        tolerance = SOLVERS[self.charter.solver]().tolerance
        done = float(self.records[-1].residual) <= tolerance
        history: Record = jax.tree.map(lambda *leaves: np.stack(leaves), *self.records)
        status = Status.CONVERGED if done else Status.RUNNING
        return Outcome(theta, status, len(self.records), history), self.counts

    def _draw_points(self) -> Floats:
        vector = self._patiently("columns")
        parts = vector[1:].reshape(3, self.columns)
        drawn = ColumnSums(round(vector[0]), *parts).draw(POINTS, self.charter.seed)
        return np.asarray(drawn, np.float64).reshape(-1)

    def _gradient(self, theta: Floats, weighting: Floats) -> tuple[Floats, float, float]:
        """Gradient of the theta step's objective, mean loss, covariance."""
        vector = self._patiently("theta", theta, weighting)
        loss, covariance = vector[:2]
        grad, penalty = vector[2:].reshape(2, -1)
        rows, paired = self.counts.rows, self._paired()
        return grad / rows + 2 / paired * penalty, loss / rows, covariance / paired

    def _attack(self, theta: Floats) -> tuple[Floats | None, float]:
        """The worst weights at theta, None where there are none, and the mean loss."""
        vector = self._patiently("attack", theta)
        sums = AdversarySums(*vector[:-2].reshape(4, POINTS), *vector[-2:])
        alpha = worst_weights(sums, self.counts.rows, self._paired(), self.charter.epsilon)
        loss = float(vector[-2]) / self.counts.rows
        if alpha is None:
            return None, loss
        sbar = np.asarray(sums.group_kernel) @ alpha / self._paired()
        return np.concatenate([[0.0], alpha, [sbar]]), loss

    def _patiently(
        self, kind: str, theta: Floats | None = None, weighting: Floats | None = None
    ) -> Floats:
        """A sum over the silos that are left; the weights follow the rows that are left."""
        while True:
            try:
                return self._sum(kind, theta=theta, mu=weighting)
            except Lost:
                self.counts = self._count()

    def _paired(self) -> int:
        pair = self.charter.pairs[0]
        return int(self.counts.cells[[pair.a, pair.b]].sum())

    def _note(self, loss: float, gap: float, step: float, residual: float) -> None:
        tau = self.charter.epsilon
        values = (loss, [gap], [0.0], step, residual, max(abs(gap) - tau, 0.0))
        self._watch(0, Record(*(np.asarray(value) for value in values)))  # type: ignore[arg-type]
