"""The questions of differential privacy: sums over disjoint cells of rows, clipped, then noise.

Of a round every cell (group, class) that a constraint compares is a cell, and all other rows are
one more. A silo's messages are sums over cells, not divided by anything:

    counts      rows of every (group, class)
    gradients   of every cell
    losses      of every cell
    curvature   of L: one triangle, off the diagonal times sqrt(2), which has the matrix's length
    outcomes    losses and rows predicted right of every (group, class) under a trained model
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.dp import Clip, Message, Release
from fairsilo.fairness.constraint import Constraint, count_cells
from fairsilo.predictor.base import HALF
from fairsilo.question.base import Noisy, Part, Problem, Promise, Silo, Unfit, fitting
from fairsilo.question.plausible import NOTHING, ROUNDING, Known

Places = list[tuple[int, int]]
"""Cells as pairs (group, class)."""


def compared_cells(constraints: Iterable[Constraint], groups: int, classes: int) -> Places:
    """The cells that the constraints compare, each once."""
    inside = np.zeros((groups, classes), bool)
    for one in constraints:
        plus, minus = one.sides(groups, classes)
        inside |= plus | minus
    return [(int(g), int(c)) for g, c in np.argwhere(inside)]


def members(y: Ints, s: Ints, cells: Places) -> Floats:
    """Who is in which cell, (cells, n)."""
    return np.array([(s == g) & (y == c) for g, c in cells], np.float64).reshape(len(cells), len(y))


def promised(problem: Problem) -> Promise:
    """The problem's differential privacy."""
    if problem.promise is None:
        raise Unfit("the problem has no differential privacy")
    return problem.promise


class NoisyCounts(Noisy, kind="noisy-counts", additive=True):
    """Rows of every (group, class)."""

    def length(self, problem: Problem) -> int:
        """One for every cell."""
        return problem.groups * problem.classes

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """One row changes one count by one at most: a weight is a share of the largest."""
        part = silo.train
        cells = count_cells(part.y, part.s, *problem.shape, part.times(problem))
        cells = cells.ravel().astype(np.float64)
        return [Message("counts", cells, 1.0, promised(problem).plan.counts)]

    def releases(self, problem: Problem) -> list[Release]:
        """One release."""
        return [Release("counts", promised(problem).plan.counts)]

    def read(self, problem: Problem, vector: Floats) -> Floats:
        """m^{s,c}, at least one each."""
        return np.maximum(vector, 1.0).reshape(problem.shape)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """No count is further below zero than noise brings it."""
        noise = known.noise(1.0, promised(problem).plan.counts)
        return "a count is negative beyond its noise" if vector.min() < -noise - 0.5 else ""


@dataclass(frozen=True, eq=False)
class Cells(Noisy, kind="cells", moving=True, additive=True):
    """Gradients and losses of every cell at theta, and the curvature of L where asked for."""

    theta: Floats
    curvature: bool
    limited: bool = True

    def cells(self, problem: Problem) -> Places:
        """Those that the constraints compare; the cell of all other rows comes after them."""
        return compared_cells(problem.constraints if self.limited else (), *problem.shape)

    def check(self, problem: Problem) -> None:
        """Theta has the model's size, and only Newton asks for a curvature, without steps."""
        fitting(self, theta=(problem.model.size,))
        if self.curvature and (problem.solver.name != "newton" or problem.model.binned):
            raise Unfit("only the solver newton asks for a curvature, and not of steps")

    def sizes(self, problem: Problem) -> list[int]:
        """How many numbers gradients, losses and curvature have."""
        cells, size = len(self.cells(problem)) + 1, problem.model.size
        return [cells * size, cells, *([size * (size + 1) // 2] if self.curvature else [])]

    def length(self, problem: Problem) -> int:
        """All of `sizes`."""
        return sum(self.sizes(problem))

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """Gradients, losses and, where asked for, the curvature."""
        from fairsilo.sums.clipped import clipped_curvature, clipped_sums

        plan, clip = promised(problem).plan, promised(problem).clip
        part, model, theta = silo.train, problem.model, self.theta
        inside = members(part.y, part.s, self.cells(problem))
        others = 1 - inside.sum(axis=0, keepdims=True)
        rows = _rows(problem, part, np.vstack([inside, others]))
        losses, gradients = clipped_sums(model, rows, theta, clip.gradient, clip.loss)
        found = [
            Message("gradients", np.asarray(gradients).ravel(), clip.gradient, plan.gradient),
            Message("losses", np.asarray(losses), clip.loss, plan.loss),
        ]
        if self.curvature:
            matrix = np.asarray(clipped_curvature(model, rows, theta, clip.curvature))
            upper, stretch = _triangle(model.size)
            bent = Message("curvature", matrix[upper] * stretch, clip.curvature, plan.curvature)
            found.append(bent)
        return found

    def releases(self, problem: Problem) -> list[Release]:
        """One release for each message."""
        plan = promised(problem).plan
        both = [Release("gradients", plan.gradient), Release("losses", plan.loss)]
        return [*both, *([Release("curvature", plan.curvature)] if self.curvature else [])]

    def read(self, problem: Problem, vector: Floats) -> list[Floats]:
        """Gradients (cells, p), losses (cells,) and the curvature matrix (p, p)."""
        gradients, losses, *more = np.split(vector, np.cumsum(self.sizes(problem))[:-1])
        size = problem.model.size
        found = [gradients.reshape(-1, size), losses]
        return [*found, *(matrix_of(one, size) for one in more)]

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """A row adds at most the clip to each sum, beside noise."""
        if known.cells is None:
            return ""
        plan, clip = promised(problem).plan, promised(problem).clip
        gradients, losses, *more = self.read(problem, vector)
        counts = known.cells + known.noise(1.0, plan.counts)
        inside = self.cells(problem)
        rows = np.array([*(counts[place] for place in inside), counts.sum()])
        room = known.noise(clip.gradient, plan.gradient)
        if (np.abs(gradients).max(axis=1) > clip.gradient * rows + room).any():
            return "a gradient is longer than clipping and noise allow"
        room = known.noise(clip.loss, plan.loss)
        if (losses < -room - ROUNDING).any() or (losses > clip.loss * rows + room).any():
            return "a sum of losses is negative or larger than clipping and noise allow"
        room = known.noise(clip.curvature, plan.curvature) if more else 0.0
        if more and np.abs(more[0]).max() > clip.curvature * rows[-1] + room:
            return "a curvature is larger than clipping and noise allow"
        return ""


@dataclass(frozen=True, eq=False)
class Outcomes(Noisy, kind="outcomes", additive=True):
    """Losses and rows predicted right of every (group, class) under a trained model."""

    theta: Floats
    cut: float = HALF
    """Where a model of two classes decides."""

    def check(self, problem: Problem) -> None:
        """Theta has the model's size, and only a model of two classes decides elsewhere."""
        fitting(self, theta=(problem.model.size,))
        if not 0 <= self.cut <= 1 or (self.cut != HALF and problem.classes != 2):
            raise Unfit(f"no model decides at {self.cut}")

    def length(self, problem: Problem) -> int:
        """Two for every cell."""
        return 2 * problem.groups * problem.classes

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """One message."""
        from fairsilo.sums.clipped import clipped_outcomes

        plan, clip, part = promised(problem).plan, promised(problem).clip, silo.train
        every = [(g, c) for g in range(problem.groups) for c in range(problem.classes)]
        rows = _rows(problem, part, members(part.y, part.s, every))
        found = clipped_outcomes(problem.model, rows, self.theta, clip.loss, self.cut)
        return [Message("outcomes", np.asarray(found).ravel(), reach(clip), plan.final)]

    def releases(self, problem: Problem) -> list[Release]:
        """One release."""
        return [Release("outcomes", promised(problem).plan.final)]

    def read(self, problem: Problem, vector: Floats) -> tuple[Floats, Floats]:
        """Losses and rows predicted right of every cell."""
        losses, right = vector.reshape(2, *problem.shape)
        return losses, right / promised(problem).clip.loss

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """A row adds at most its clipped loss, and one right answer, beside noise."""
        if known.cells is None:
            return ""
        plan, clip = promised(problem).plan, promised(problem).clip
        room = known.noise(reach(clip), plan.final)
        most = clip.loss * (known.cells + known.noise(1.0, plan.counts)) + room
        found = vector.reshape(2, *problem.shape)
        if (found < -room - ROUNDING).any() or (found > most).any():
            return "losses or right answers are more than clipping and noise allow"
        return ""


def reach(clip: Clip) -> float:
    """How far one row moves the outcomes: its loss and its right answer, each at most the clip."""
    return float(clip.loss * np.sqrt(2))


def matrix_of(triangle: Floats, size: int) -> Floats:
    """The curvature from the released triangle."""
    upper, stretch = _triangle(size)
    matrix = np.zeros((size, size))
    matrix[upper] = triangle / stretch
    return np.triu(matrix) + np.triu(matrix, 1).T


def _triangle(size: int) -> tuple[tuple[Ints, Ints], Floats]:
    upper = np.triu_indices(size)
    return upper, np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))


def _rows(problem: Problem, part: Part, inside: Floats) -> Any:
    """The rows, with their cells in the place of v; what a row weighs, it weighs in its cell."""
    from fairsilo.sums.rows import Rows, padded

    times = part.times(problem)
    each = np.ones(len(part)) if times is None else times
    rows = Rows(part.x, part.y, each, inside * each)  # type: ignore[arg-type]
    return padded(rows, 0, len(part))
