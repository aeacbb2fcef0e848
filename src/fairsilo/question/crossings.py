"""Gradients and curvatures of the loss in the cells of every two features: which pairs matter.

At the optimum of the curves no curve can be improved. What a cell of two features still pulls at is
what the pair would add to the model (FAST: Lou, Caruana, Gehrke, Hooker 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Coded, Table, values_of
from fairsilo.model.scores import linear_scores, probabilities_of, slopes_of
from fairsilo.question.base import Problem, Question, Silo, Unfit, fitting
from fairsilo.question.plausible import NOTHING, Known

SIDE = 8
"""Coarse steps of a feature."""


@dataclass(frozen=True, eq=False)
class Crossings(Question, kind="crossings", moving=True, additive=True):
    """Of every two features, gradient and curvature by coarse cell, added up over training rows."""

    theta: Floats
    widths: Floats
    """How many columns every feature has."""
    coarse: Floats
    """For each of them which coarse step it belongs to, one feature after the other; -1 throughout
    for a feature that is not asked about."""
    costs: Floats
    """What a row of each class weighs; nothing: all the same."""
    rest: bool = False
    """Whether to leave out the rows that each silo sets aside."""

    def check(self, problem: Problem) -> None:
        """Theta has the model's size, and every column its coarse step."""
        fitting(self, theta=(problem.model.size,), coarse=(problem.model.features,))
        if not problem.model.binned or self.widths.sum() != problem.model.features:
            raise Unfit("the features do not have the model's columns")
        if not np.isin(self.coarse, np.arange(-1, SIDE)).all() or (self.widths < 1).any():
            raise Unfit("the coarse steps of a feature are not whole numbers, or too many")
        if self.rest and not problem.rest:
            raise Unfit("the problem sets no rows aside")
        if len(self.costs) not in (0, problem.classes) or (self.costs <= 0).any():
            raise Unfit("the classes' weights do not fit the problem")

    def maps(self) -> dict[int, Ints]:
        """The coarse steps of the columns of every feature that is asked about."""
        ends = np.cumsum(self.widths).astype(np.int64)[:-1]
        parts = np.split(self.coarse.astype(np.int64), ends)
        return {k: part for k, part in enumerate(parts) if part.min() >= 0}

    def length(self, problem: Problem) -> int:
        """Gradient and curvature of SIDE x SIDE cells for every two features and every score."""
        asked = len(self.maps())
        return asked * (asked - 1) // 2 * SIDE**2 * 2 * problem.model.outputs

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows."""
        part, maps = silo.rows(problem, self.rest), self.maps()
        values = values_of(fitting_columns(self.widths, part.x))
        # A row without a column of a feature (blank) is in no cell of it.
        places = {k: np.append(own, SIDE)[values[k]] for k, own in maps.items()}
        p = probabilities_of(linear_scores(self.theta, part.x, problem.classes))
        outputs = problem.model.outputs
        weights = np.hstack([slopes_of(p, part.y, outputs), (p * (1 - p))[:, -outputs:]])
        times = part.times(problem)
        if times is not None:
            weights *= times[:, None]
        if self.costs.size:
            weights *= self.costs[part.y, None]
        found = []
        for a, b in combinations(places, 2):
            cell = places[a] * (SIDE + 1) + places[b]
            for weight in weights.T:
                table = np.bincount(cell, weights=weight, minlength=(SIDE + 1) ** 2)
                found.append(table.reshape(SIDE + 1, SIDE + 1)[:SIDE, :SIDE].ravel())
        return np.concatenate([*found, np.zeros(0)])

    def read(self, problem: Problem, vector: Floats) -> dict[tuple[int, int], Floats]:
        """For every two features (gradient and curvature, score, SIDE, SIDE)."""
        shape = (-1, 2, problem.model.outputs, SIDE, SIDE)
        return dict(zip(combinations(self.maps(), 2), vector.reshape(shape), strict=True))

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """No curvature is negative."""
        sums = vector.reshape(-1, 2, problem.model.outputs * SIDE**2)
        return "a curvature is negative" if (sums[:, 1] < -1e-6).any() else ""


def fitting_columns(widths: Floats, x: Table) -> Coded:
    """The rows, if these are the features' widths: with others only some rows would fit."""
    if not isinstance(x, Coded) or widths.tolist() != [own for _, own in x.layout.categories]:
        raise Unfit("the features do not have the encoder's columns")
    return x
