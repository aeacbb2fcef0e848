"""A training run over silos under differential privacy: the private run of the simulation.

What the server asks costs every silo a part of its budget, whether or not an answer comes back. So
the server keeps a ledger of its questions, too: noted before they leave, kept with the journal,
and read back when a run is resumed. A question asked twice costs twice, and is paid for with
rounds that are then not made, or with what is said of the training rows in the end: the run ends
earlier, never above its promise.

A silo that is lost takes no protection with it: sums are opened over those who answered, whose
noise is enough. What they are divided by is counted again over those who are left, one more
release, and the solver goes on from where it stands: it knows means, which other rows of the same
kind move little, and no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.compute import jax
from fairsilo.data.bounded import encoder_of_sums, sensitivity
from fairsilo.data.encoder import Encoder
from fairsilo.dp import BudgetSpent, Ledger, Release, deviation
from fairsilo.dp.budget import accountant_of_losses
from fairsilo.engine import FromCells, Outcome
from fairsilo.engine.loop import drive
from fairsilo.engine.messages import counts_of, outcomes_of
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.evidence import Evidence
from fairsilo.fairness.constraint import Totals, compared_cells
from fairsilo.flower.session import Finished, Session
from fairsilo.flower.vectors import TEST_ONLY, length_of
from fairsilo.method.private import solver_under_noise
from fairsilo.model.base import Model
from fairsilo.run.private import Released, check_counts
from fairsilo.solver import SOLVERS, Record, Status


class PrivateSession(Session):
    """A session in which every answer has noise."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        accountant_of_losses()
        assert self.charter.dp is not None
        self.promise, self.plan = self.charter.dp, self.charter.plan
        self.clip = self.promise.bounds
        self.ledger = Ledger(self.promise.budget, list(self.journal.releases))
        self.cells = compared_cells(self.charter.constraints)
        self.counts: Floats = np.zeros(self.charter.shape)
        self.counted: tuple[str, ...] = ()
        """The silos whose rows `counts` counts."""
        self.released: Released | None = None

    def train(self, baseline: bool = False) -> Finished:
        """As ever; what is known of the training rows is what was released."""
        if baseline:
            raise FairSiloError(
                "--baseline would spend the privacy budget a second time: leave it out"
            )
        finished = super().train()
        return replace(finished, released=self.released, ledger=self.ledger)

    def solve(self, encoder: Encoder, model: Model, totals: Totals) -> tuple[Outcome, Totals]:
        """Drive the solver for the planned rounds, or for as many as are paid for."""
        charter = self.charter
        self.server = FromCells(charter.constraints, self.counts, self._released)
        noise = self.server.noise(self._noise(self.clip.gradient, self.plan.gradient))
        solver = solver_under_noise(SOLVERS[charter.solver](), charter.rounds, noise, self.clip)
        self.tolerance = solver.tolerance
        try:
            ended = drive(
                solver, self.server.answer, self.theta, self.epsilon, charter.rounds, self._watch
            )
            theta, status = ended.theta, ended.status
        except BudgetSpent:
            if not self.records:
                raise BudgetSpent(
                    "questions asked twice have spent the privacy budget that the rounds were "
                    "planned for: agree on a new federation file"
                ) from None
            # The point that could not be asked about is the one after the last step.
            theta, status = self.asked, Status.RUNNING
            self.notes.append(
                f"{charter.rounds - len(self.records)} of {charter.rounds} planned rounds were not "
                "made: questions asked twice, or counting again after a loss, had spent their part "
                "of the privacy budget"
            )
        history: Record = jax.tree.map(lambda *leaves: np.stack(leaves), *self.records)
        return Outcome(theta, status, len(self.records), history), self._totals()

    def _released(self, theta: Floats, curvature: bool) -> Sequence[Floats]:
        """The silos' sums at a point, as `engine.messages.round_messages` has them."""
        self.asked, order = theta, "second" if curvature else "first"
        while True:
            vector = self._sum("round", order=order, theta=theta)
            answered = self.silos
            if answered != self.counted:
                self._count()
                self.server.count(self.counts)
            if answered == self.counted:
                break
        cells = len(self.cells) + 1
        return np.split(vector, np.cumsum([cells * theta.size, cells]))

    def _fit_encoder(self) -> Encoder:
        table = self.charter.table
        total = self._sum("encoder")
        noise = self._noise(sensitivity(table), self.plan.encoder)
        return self._keep(encoder_of_sums(table, total, noise))

    def _count(self) -> Totals:
        charter = self.charter
        self.counts = counts_of(self._sum("totals"), *charter.shape)
        self.counted = self.silos
        if charter.method == "fedfair":
            noise = self._noise(1.0, self.plan.counts)
            check_counts(charter.table, charter.pairs, self.counts, noise)
        return self._totals()

    def _totals(self) -> Totals:
        cells = np.rint(self.counts).astype(np.int64)
        return Totals(int(cells.sum()), cells, np.zeros(len(self.charter.pairs), np.int64))

    def _evaluate(self, outcome: Outcome) -> tuple[Evidence | None, Evidence]:
        charter, shape = self.charter, self.charter.shape
        paid = self.journal.upcoming == "evaluate" or self.ledger.fits(self._outcomes)
        order = "" if paid else TEST_ONLY
        vector = self._sum("evaluate", order=order, theta=np.asarray(outcome.theta))
        pieces = np.full(2 * self.counts.size, np.nan)
        if vector.size == length_of("evaluate", "", charter, 0):
            released, vector = np.split(vector, [pieces.size])
            if self.silos == self.counted:
                pieces = released
        losses, right = outcomes_of(pieces, *shape, self.clip)
        noise = self._noise(self.clip.loss * np.sqrt(2), self.plan.final)
        self.released = Released(self.counts, losses, right, noise)
        return None, Evidence.from_vector(vector, *shape, len(charter.pairs))

    def _sum(self, kind: str, **given: Any) -> Floats:
        """As ever; where the interrupted run had no budget for more rounds, there are none."""
        if kind != "evaluate" and self.journal.upcoming == "evaluate":
            raise BudgetSpent("the interrupted run ended here")
        return super()._sum(kind, **given)

    def _noise(self, reach: float, multiplier: float) -> float:
        """The standard deviation of the noise in the sum over the silos that answer."""
        return deviation(reach, multiplier, len(self.silos), self.charter.smallest_sum)

    def _before(self, kind: str, order: str) -> None:
        """Pay for a question before it is asked; a round leaves what the last question costs."""
        asked = self._releases(kind, order)
        ledger = Ledger(self.ledger.budget, list(self.ledger.releases))
        for release in [*asked, *([self._outcomes] if kind == "round" else [])]:
            ledger.charge(release)
        self.ledger.releases += asked
        self.journal.note(self.ledger.releases)

    def _releases(self, kind: str, order: str) -> list[Release]:
        plan = self.plan
        if kind == "round":
            both = [Release("gradients", plan.gradient), Release("losses", plan.loss)]
            return [*both, *([Release("curvature", plan.curvature)] if order == "second" else [])]
        if kind == "evaluate":
            return [] if order == TEST_ONLY else [self._outcomes]
        if kind == "totals":
            return [Release("counts", plan.counts)]
        return [Release("encoder", plan.encoder)]

    @property
    def _outcomes(self) -> Release:
        return Release("outcomes", self.plan.final)

    def _refuse_loss(self, kind: str, lost: dict[str, str]) -> None:
        """Whoever is lost, the others' noise is enough: there is nothing to refuse."""
