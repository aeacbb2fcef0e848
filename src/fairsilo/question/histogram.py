"""Counts of every number over a grid, and of every category by value: what steps are found from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.question.base import Problem, Question, Silo, Unfit, fitting
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
