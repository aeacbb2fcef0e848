"""Counts of rows: all, of every cell (group, class), and who takes part in which constraint."""

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.fairness.constraint import Totals, count_cells
from fairsilo.question.base import ASIDE, Problem, Question, Silo, Unfit
from fairsilo.question.plausible import NOTHING, Known, other_rows, whole_counts


@dataclass(frozen=True, eq=False)
class Counts(Question, kind="counts"):
    """What a silo must know of the federation to weigh its rows."""

    rest: bool = False
    """Whether to leave out the rows that each silo sets aside."""

    def check(self, problem: Problem) -> None:
        """Rows are set aside only where a search needs it."""
        if self.rest and not problem.rest:
            raise Unfit("the problem sets no rows aside")

    def length(self, problem: Problem) -> int:
        """Rows, cells, constraints."""
        return 1 + problem.groups * problem.classes + len(problem.constraints)

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the rows to train on, without the cells that the silo finds too small."""
        part = silo.rows(problem, self.rest)
        cells = count_cells(part.y, part.s, *problem.shape)
        return Totals.of_silo(cells, problem.constraints, silo.min_cell).to_vector()

    def read(self, problem: Problem, vector: Floats) -> Totals:
        """The counts over all silos."""
        return Totals.from_vector(vector, *problem.shape)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Whole numbers; no more rows in the cells than there are, and as many as before."""
        totals, silos = self.read(problem, vector), known.silos or np.inf
        if totals.cells.sum() > totals.rows or (totals.taking_part > silos).any():
            return "the cells have more rows, or the constraints more silos, than there are"
        if self.rest and known.rows is not None:
            # Every silo rounds the share that it sets aside.
            off = abs(totals.rows - (1 - ASIDE) * known.rows)
            return "too many or too few rows were set aside" if off > silos else ""
        return whole_counts(vector) or other_rows(totals.rows, known)
