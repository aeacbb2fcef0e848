"""`clientwise`: every silo answers for its own rows, one after the other, in this process.

Slower than `pooled` and the same numbers; the code of a silo's answer is the network's.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.coded import joined
from fairsilo.engine.base import solve_by_asking
from fairsilo.fairness.constraint import Totals
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Predictor
from fairsilo.question.base import Part, Problem, Question, Silo
from fairsilo.question.counts import Counts
from fairsilo.solver.base import Outcome, Watch


def silos_of(train: Federation, min_cell: int = 0) -> list[Silo]:
    """The silos of a federation, without test rows."""
    none = Part(train.y[:0], train.s[:0], train.x[:0])
    return [
        Silo(Part(own.y, own.s, own.x, weight=own.weight), none, min_cell, i)
        for i, own in enumerate(train.parts())
    ]


class Clientwise:
    """Answers of silos in this process, added."""

    def __init__(self, silos: Sequence[Silo]) -> None:
        self.silos = list(silos)
        self.min_cell: int | None = max((silo.min_cell for silo in self.silos), default=0)
        self._totals: dict[Any, Totals] = {}

    @property
    def clients(self) -> int:
        """How many silos there are."""
        return len(self.silos)

    def ask(self, problem: Problem, question: Question) -> Any:
        """Every silo's answer, added as they come."""
        question.check(problem)
        total: Floats = reduce(add, (question.answer(problem, silo) for silo in self.silos))
        return question.read(problem, total)

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """The counts, asked for once."""
        unweighted &= problem.weighted
        key = (problem.constraints, problem.rest, problem.seed, unweighted)
        if key not in self._totals:
            self._totals[key] = self.ask(problem, Counts(problem.rest, unweighted))
        return self._totals[key]

    def noise(self, problem: Problem) -> float:
        """None."""
        return 0.0

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """One question a round."""
        return solve_by_asking(self, problem, watch)

    def own(self) -> tuple[Predictor, ...]:
        """The silos' own models."""
        return tuple(silo.own for silo in self.silos if silo.own is not None)


def federation_of(silos: Sequence[Silo], problem: Problem) -> Federation:
    """The rows to train on, laid end to end."""
    parts = [silo.rows(problem, problem.rest) for silo in silos]
    return Federation(
        joined([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.s for part in parts]),
        np.cumsum([0, *map(len, parts)]),
        *problem.shape,
        weight=weight_of(parts),
    )


def weight_of(parts: Sequence[Part]) -> Floats | None:
    """The weights of all rows, where they have some."""
    each = [part.weight for part in parts if part.weight is not None]
    return np.concatenate(each) if each else None
