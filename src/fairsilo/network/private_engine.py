"""The network as an engine under differential privacy: every answer about training rows has noise.

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
from fairsilo.dp import Budget, BudgetSpent, Ledger, deviation
from fairsilo.dp.budget import accountant
from fairsilo.engine import FromCells, solver_under_noise
from fairsilo.engine.loop import drive
from fairsilo.fairness.constraint import Totals
from fairsilo.network.aggregate import Collected
from fairsilo.network.engine import Network
from fairsilo.question import Cells, NoisyCounts, Outcomes, Problem, Question
from fairsilo.question.cells import promised
from fairsilo.solver import Outcome, Record, Status, Watch


class PrivateNetwork(Network):
    """Silos far away whose answers carry noise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        accountant()
        assert self.agreed.dp is not None
        budget = Budget(self.agreed.dp.epsilon, self.agreed.dp.delta)
        self.ledger = Ledger(budget, list(self.journal.releases))
        self._counts: Floats | None = None
        self.counted: tuple[str, ...] = ()
        """The silos whose rows `counts` counts."""

    def deviation(self, reach: float, multiplier: float) -> float:
        """The standard deviation of the noise in the sum over the silos that answer."""
        return deviation(reach, multiplier, len(self.silos), self.agreed.smallest_sum)

    def counts(self, problem: Problem) -> Floats:
        """m^{s,c} with noise; released anew after a loss."""
        if self._counts is None:
            self._counts = self.ask(problem, NoisyCounts())
            self.counted = self.silos
        return self._counts

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """The noisy counts as whole numbers; rows with weights have no others."""
        cells = np.rint(self.counts(problem)).astype(np.int64)
        return Totals(int(cells.sum()), cells, np.zeros(len(problem.constraints), np.int64))

    def noise(self, problem: Problem) -> float:
        """The standard deviation of the noise in a coordinate of grad L."""
        plan, clip = promised(problem).plan, promised(problem).clip
        server = FromCells(problem.constraints, self.counts(problem), lambda theta, bent: ())
        return server.noise(self.deviation(clip.gradient, plan.gradient))

    def under_noise(self, problem: Problem) -> Problem:
        """The problem with the solver that noise makes of it."""
        return replace(problem, solver=solver_under_noise(problem, self.noise(problem)))

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """Drive the solver for the planned rounds, or for as many as are paid for."""
        problem = self.under_noise(problem)
        limited, records = bool(problem.constraints), list[Record]()

        def ask(theta: Floats, curvature: bool) -> Sequence[Floats]:
            while True:
                found: Sequence[Floats] = self.ask(problem, Cells(theta, curvature, limited))
                answered = self.silos
                if answered != self.counted:
                    self._counts = None
                    server.count(self.counts(problem))
                if answered == self.counted:
                    return found

        def note(number: int, record: Record) -> None:
            records.append(record)
            if watch:
                watch(number, record)

        server = FromCells(problem.constraints, self.counts(problem), ask, problem.curvature)
        start = problem.model.start(problem.seed)
        try:
            ended = drive(
                problem.solver,
                server.answer,
                start,
                problem.limits,
                problem.rounds,
                note,
                problem.penalty,
            )
            return ended
        except BudgetSpent:
            if not records:
                raise BudgetSpent(
                    "questions asked twice have spent the privacy budget that the rounds were "
                    "planned for: agree on a new federation file"
                ) from None
            self.notes.append(
                f"{problem.rounds - len(records)} of {problem.rounds} planned rounds were not "
                "made: questions asked twice, or counting again after a loss, had spent their part "
                "of the privacy budget"
            )
        history = Record.stacked(records)
        # The point that could not be asked about is the one after the last step.
        return Outcome(self.theta, Status.RUNNING, len(records), history)

    def outcomes(self, problem: Problem, theta: Floats, cut: float) -> tuple[Floats, Floats] | None:
        """Losses and right answers of the training rows; None where the budget is spent, or where
        other silos answered than were counted."""
        question = Outcomes(theta, cut)
        upcoming = self.journal.upcoming
        paid = upcoming == question.kind or (
            not upcoming and all(map(self.ledger.fits, question.releases(problem)))
        )
        if not paid:
            return None
        found: tuple[Floats, Floats] = self.ask(problem, question)
        return found if self.silos == self.counted else None

    def ask(self, problem: Problem, question: Question) -> Any:
        """As the base, but where the interrupted run had no budget for more there is no more."""
        if question.moving and self.journal.upcoming in ("outcomes", "evaluate"):
            self.theta = getattr(question, "theta", self.theta)
            raise BudgetSpent("the interrupted run ended here")
        return super().ask(problem, question)

    def _known_cells(self) -> Floats | None:
        """The released counts."""
        return self._counts

    def _before(self, problem: Problem, question: Question) -> None:
        """Pay for a question before it is asked; a round leaves what the last question costs."""
        asked = question.releases(problem)
        ledger = Ledger(self.ledger.budget, list(self.ledger.releases))
        last = Outcomes(self.theta).releases(problem) if question.moving else []
        for release in [*asked, *last]:
            ledger.charge(release)
        self.ledger.releases += asked
        self.journal.note(self.ledger.releases)

    def _after(self, collected: Collected) -> None:
        """A witness counts what the server says that it paid for: questions that nobody answered,
        or of which the witness was not told, cost as well."""
        if collected.paid is not None:
            self.ledger.releases = list(collected.paid)

    def _refuse_loss(self, question: Question, lost: dict[str, str]) -> None:
        """Whoever is lost, the others' noise is enough: there is nothing to refuse."""
