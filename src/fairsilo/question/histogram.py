"""Counts of every number over a grid, and of every category by value: what steps are found from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp import Message, Release
from fairsilo.question.base import Noisy, Problem, Question, Silo, Unfit, fitting
from fairsilo.question.plausible import NOTHING, Known, other_rows, whole_counts

if TYPE_CHECKING:
    from fairsilo.data.binned import Histograms


@dataclass(frozen=True, eq=False)
class Histogram(Question, kind="histogram", additive=True):
    """The training rows in each cell of the grids."""

    edges: Floats
    """The inner edges of every number's grid, one number after the other."""

    def check(self, problem: Problem) -> None:
        """There is a grid for every number."""
        from fairsilo.data.binned import grids
        from fairsilo.data.steps import FINE

        assert problem.schema is not None
        fitting(self, edges=(len(problem.schema.numbers) * (FINE - 1),))
        if any((np.diff(grid) < 0).any() for grid in grids(problem.schema, self.edges)):
            raise Unfit("the edges of a grid do not ascend")
        if not problem.model.binned:
            raise Unfit("the model has no steps")

    def length(self, problem: Problem) -> int:
        """The cells, one for missing cells of every number, and the categories' values."""
        from fairsilo.data.binned import counts_length

        assert problem.schema is not None
        return counts_length(problem.schema)

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows."""
        from fairsilo.data.binned import counted

        assert problem.schema is not None
        return counted(silo.train.frame, problem.schema, self.edges)

    def read(self, problem: Problem, vector: Floats) -> Histograms:
        """The counts by name."""
        from fairsilo.data.binned import read_counts

        assert problem.schema is not None
        return read_counts(vector, problem.schema, self.edges)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Every row is counted once for each number, and at most once for each category."""
        seen = self.read(problem, vector)
        rows = [float(one.sum() + m) for one, m in zip(seen.numbers, seen.missing, strict=True)]
        wrong = (other_rows(one, known) for one in rows)
        if problem.weighted:
            # Steps have about as many rows each, whatever these weigh; nobody counted them before.
            return whole_counts(vector)
        if known.rows is not None and any(one.sum() > known.rows + 0.5 for one in seen.categories):
            return "a category has more values than there are rows"
        return whole_counts(vector) or next(filter(None, wrong), "")


class NoisyHistogram(Noisy, kind="noisy-histogram", additive=True):
    """The same under differential privacy, over grids within the declared bounds."""

    def check(self, problem: Problem) -> None:
        """Numbers have bounds, and the model has steps."""
        from fairsilo.data.bounded import bounds_of

        assert problem.schema is not None
        bounds_of(problem.schema)
        if not problem.model.binned:
            raise Unfit("the model has no steps")

    def length(self, problem: Problem) -> int:
        """The cells, one for missing cells of every number, and the categories' values."""
        from fairsilo.data.binned import counts_length
        from fairsilo.data.bounded import CELLS

        assert problem.schema is not None
        return counts_length(problem.schema, CELLS)

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """One message."""
        from fairsilo.data.bounded import histogram_message

        assert problem.schema is not None
        assert problem.promise is not None
        return [histogram_message(silo.train.frame, problem.schema, problem.promise.plan)]

    def releases(self, problem: Problem) -> list[Release]:
        """One release."""
        assert problem.promise is not None
        return [Release("histograms", problem.promise.plan.encoder)]

    def read(self, problem: Problem, vector: Floats) -> Histograms:
        """The counts by name."""
        from fairsilo.data.binned import read_counts
        from fairsilo.data.bounded import bounded_grids

        assert problem.schema is not None
        return read_counts(vector, problem.schema, bounded_grids(problem.schema))

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """No count is further below zero than noise brings it."""
        from fairsilo.data.bounded import histogram_sensitivity

        assert problem.schema is not None
        assert problem.promise is not None
        reach = histogram_sensitivity(problem.schema)
        noise = known.noise(reach, problem.promise.plan.encoder)
        negative = vector.min(initial=0.0) < -noise - 0.5
        return "a count is negative beyond its noise" if negative else ""
