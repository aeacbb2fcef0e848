"""Counts of rows: all, of every cell (group, class), and who takes part in which constraint."""

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.fairness.constraint import Totals
from fairsilo.fairness.weigh import silo_totals
from fairsilo.question.base import ASIDE, Problem, Question, Silo, Unfit
from fairsilo.question.plausible import (
    NOTHING,
    ROUNDING,
    Known,
    negative_counts,
    other_rows,
    whole_counts,
)


@dataclass(frozen=True, eq=False)
class Counts(Question, kind="counts"):
    """What a silo must know of the federation to weigh its rows."""

    rest: bool = False
    """Whether to leave out the rows that each silo sets aside."""
    unweighted: bool = False
    """Whether every row counts as one, whatever it weighs: small groups are those of few rows."""

    def check(self, problem: Problem) -> None:
        """Rows are set aside only where a search needs it."""
        if self.rest and not problem.rest:
            raise Unfit("the problem sets no rows aside")

    def length(self, problem: Problem) -> int:
        """Rows, cells, constraints."""
        return problem.totals_length(len(problem.constraints))

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the rows to train on, without the cells that the silo finds too small."""
        part = silo.rows(problem, self.rest)
        weight = None if self.unweighted else part.times(problem)
        rows = (part.y, part.s, weight, problem.shape)
        by_class = problem.class_weight is not None
        return silo_totals(*rows, problem.constraints, silo.min_cell, by_class).to_vector()

    def read(self, problem: Problem, vector: Floats) -> Totals:
        """The counts over all silos."""
        return Totals.from_vector(vector, *problem.layout)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Whole numbers; no more rows in the cells than there are, and as many as before."""
        totals, silos = self.read(problem, vector), known.silos or np.inf
        most = totals.rows * (1 + ROUNDING)
        if totals.cells.sum() > most or (totals.taking_part > silos).any():
            return "the cells have more rows, or the constraints more silos, than there are"
        if problem.weighted:
            return negative_counts(vector, weighted=True)
        if self.rest and known.rows is not None:
            # Every silo rounds the share that it sets aside.
            off = abs(totals.rows - (1 - ASIDE) * known.rows)
            return "too many or too few rows were set aside" if off > silos else ""
        return whole_counts(vector) or other_rows(totals.rows, known)
