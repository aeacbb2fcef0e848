"""Counts of rows: all, of every cell (group, class), and who takes part in which constraint."""

from dataclasses import dataclass

from fairsilo.arrays import Floats
from fairsilo.fairness.constraint import Totals, count_cells
from fairsilo.question.base import Problem, Question, Silo, Unfit


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

    def implausible(self, problem: Problem, vector: Floats) -> str:
        """No count is negative, and the cells have no more rows than there are."""
        totals = self.read(problem, vector)
        if (vector < -0.5).any() or totals.cells.sum() > totals.rows:
            return "a count is negative, or the cells have more rows than there are"
        return ""
