"""`pooled`: a solver's rounds over all silos' rows in one compiled program, for many runs at once.

Because a round is a weighted sum over rows, the program need not know where one silo ends and the
next begins. All other questions are answered as by `clientwise`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine.clientwise import Clientwise, federation_of, silos_of
from fairsilo.engine.loop import drive
from fairsilo.fairness.weigh import weighted
from fairsilo.numerics import accelerated
from fairsilo.partition.federation import Federation
from fairsilo.question.base import Part, Problem, Question, Silo
from fairsilo.question.model_sums import sums_of
from fairsilo.question.round import Round, unflatten
from fairsilo.solver import Agp
from fairsilo.solver.base import Order, Outcome, Query, Sums, Watch
from fairsilo.solver.strengths import Choosing

Limit = float | tuple[float, ...]


class Pooled(Clientwise):
    """The rows of all silos in one array."""

    def __init__(self, federation: Federation, min_cell: int = 0) -> None:
        super().__init__(silos_of(federation, min_cell=min_cell))
        self.federation = federation
        whole = Part(federation.y, federation.s, federation.x, weight=federation.weight)
        self.whole = Silo(whole, self.silos[0].test, min_cell)
        self._epochs: tuple[Problem | None, Any] = (None, None)

    def ask(self, problem: Problem, question: Question) -> Any:
        """A question that may be asked of all rows at once is, and local epochs are one program."""
        if problem.work is not None and isinstance(question, Round):
            question.check(problem)
            epochs = self._epochs_of(problem)
            if epochs is not None:
                order = partial(question.order_of, problem)
                return question.read(problem, epochs.sums(question.theta, question.mu, order))
        # Each silo draws the rows that it sets aside.
        if question.additive and not problem.rest:
            question.check(problem)
            return question.read(problem, question.answer(problem, self.whole))
        return super().ask(problem, question)

    def _epochs_of(self, problem: Problem) -> Any:
        """The program of the problem's local epochs; None where the silos answer one by one."""
        known, epochs = self._epochs
        if known is not problem:
            from fairsilo.engine.epochs import Epochs, fits

            asked, w, v = self._weighted(problem)
            epochs = Epochs(problem, asked, w, v) if fits(asked, w) else None
            self._epochs = problem, epochs
        return epochs

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """The compiled loop; for Newton's few rounds of logistic regression it does not pay.

        Local epochs are compiled round by round.
        """
        if problem.work is not None:
            return super().solve(problem, watch)
        if (
            problem.model.linear
            and problem.solver.order is Order.SECOND
            and problem.estimator != "local"
            and (not accelerated() or isinstance(problem.penalty, Choosing))
        ):
            return self._solve_at_once(problem, watch)
        return solve_many([problem], [self], [problem.epsilon], watch)[0][0]

    def _solve_at_once(self, problem: Problem, watch: Watch | None) -> Outcome:
        """Round by round, each one answer over all rows as a silo gives it over its own."""
        model, (asked, w, v) = problem.model, self._weighted(problem)

        def answer(query: Query, order: Order) -> Sums:
            at = (np.asarray(query.theta), np.asarray(query.mu))
            vector = sums_of(model, order.value, asked.x, asked.y, w, v, *at, problem.measure)
            return unflatten(vector, order, model.size, len(problem.constraints), problem.measure)

        start = problem.start
        return drive(
            problem.solver, answer, start, problem.limits, problem.rounds, watch, problem.penalty
        )

    def _weighted(self, problem: Problem) -> tuple[Federation, Floats, Floats]:
        """The rows that a round asks about, w and v."""
        whole = federation_of(self.silos, problem) if problem.rest else self.federation
        least, costs = self.silos[0].min_cell, problem.class_weight
        return weighted(whole, problem.constraints, problem.estimator, least, costs)

    def rows(self, problem: Problem) -> Any:
        """Weighted rows for the compiled loop; under `local` with a leading axis of silos."""
        from fairsilo.sums import Rows, stack_silos

        asked, w, v = self._weighted(problem)
        rows = Rows(asked.x, asked.y, w, v)  # type: ignore[arg-type]
        return stack_silos(rows, asked.offsets) if problem.estimator == "local" else rows


def solve_many(
    problems: Sequence[Problem],
    engines: Sequence[Pooled],
    epsilons: Sequence[Limit],
    watch: Watch | None = None,
    thin: bool = False,
) -> list[list[Outcome]]:
    """Every problem with every epsilon, in one program; a list for each problem.

    The problems differ in their rows and seed only. `thin` keeps a short history.
    """
    from fairsilo.compute import jax
    from fairsilo.sums import Compiled, even

    first = problems[0]
    tables = [engine.rows(one) for one, engine in zip(problems, engines, strict=True)]
    rows = (
        tables[0]
        if len(tables) == 1
        else jax.tree.map(lambda *parts: np.stack(parts), *even(tables))
    )
    local = first.estimator == "local"
    limits = [_limits(first, engines[0].clients if local else 1, one) for one in epsilons]
    outcomes = iter(
        Compiled(first.model, rows, precision(first), local, first.measure).solve_many(
            first.solver,
            np.repeat([one.start for one in problems], len(epsilons), axis=0),
            np.tile(limits, (len(problems), 1)),
            first.rounds,
            watch,
            thin,
            None if first.penalty is None else first.penalty.matrix,
        )
    )
    return [[next(outcomes) for _ in epsilons] for _ in problems]


def precision(problem: Problem) -> type[np.float32] | type[np.float64]:
    """AGP runs in float32, all else in float64."""
    return np.float32 if isinstance(problem.solver, Agp) else np.float64


def _limits(problem: Problem, silos: int, epsilon: Limit) -> np.ndarray:
    """One per constraint, and under `local` per silo, too."""
    return np.tile(np.broadcast_to(epsilon, len(problem.constraints)), silos)
