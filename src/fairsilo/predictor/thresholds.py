"""Thresholds: a model that decides from another probability on in every group.

From histograms of the training rows' probabilities, by group and class (`evaluate.scores`), which
are sums over silos: choose for each compared group g one cut t_g between cells, so that

    max   rows predicted right
    s.t.  |rate of side a - rate of side b| <= target   for every constraint

a program with one binary variable per group and cut, solved exactly (SciPy's HiGHS). Hardt, Price
and Srebro (2016) draw by lot between two cuts where no pair of cuts meets the target exactly. Here
nobody is decided on by lot: the target is an inequality, and some cuts keep to it. What the lot
would have gained is the difference to the same program without whole numbers, and it is told.

Of equally good cuts the ones nearest to one half are taken; between cells without rows, the middle.
Of many groups not every cut is tried, so that the program stays small, and a search that reaches
its most nodes ends with the best cuts it has found, or with one side for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.evaluate.scores import CELLS, threshold_of
from fairsilo.fairness.constraint import Constraint
from fairsilo.predictor.base import Predictor

OWN = CELLS // 2
"""The cut at one half."""
TIE = 1e-4
"""What a cell's distance from one half costs, in rows: all groups' together are less than one."""
MOST = 3 * (CELLS + 1)
"""The most cuts of all groups together: every one of three groups."""
NODES = 2_000
"""The most nodes of the search. A limit in seconds would end it elsewhere on another machine."""
BEST, NONE = 0, 2
"""What `milp` says of a search that went to its end."""
ROUNDED = 1e-9
"""Limits are kept by this share more, because sums are rounded."""


@dataclass(frozen=True)
class Thresholds:
    """A base predictor whose second class is predicted from its group's own probability on."""

    base: Predictor
    cuts: Floats
    """One for each group."""

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """The base's."""
        return self.base.probabilities(x, s)

    def labels(self, x: Table, s: Ints, seed: int = 0) -> Ints:
        """By the group's cut; nothing is drawn."""
        return (self.base.probabilities(x, s)[:, 1] >= self.cuts[s]).astype(np.int64)

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The base's: where it decides changes no probability."""
        return self.base.losses(x, y, s)


@dataclass(frozen=True)
class Chosen:
    """Cuts, and what is known of them on the rows that they were chosen by."""

    cuts: Floats
    """One for each group."""
    gap: float
    """The largest difference of rates."""
    accuracy: float
    """Of the compared groups' rows."""
    by_lot: float
    """The accuracy that drawing by lot between the cuts that were tried could have; never less."""
    proved: bool = True
    """Whether the search saw every cut and went to its end: no other cuts are better."""


def choose_cuts(scores: Ints, constraints: Sequence[Constraint], target: float) -> Chosen:
    """The best cuts within the target, or where none are, those with the smallest gap.

    `scores`: rows by group, class and cell, (groups, 2, cells).
    """
    program = _Program(scores.astype(np.float64), constraints)
    found = program.solve(target, whole=True)
    bound = program.solve(target, whole=False) if found is not None else None
    if found is None:
        found = program.closest()
    accuracy = program.accuracy(found)
    by_lot = accuracy if bound is None else max(accuracy, program.accuracy(bound))
    return Chosen(program.thresholds(found), program.gap(found), accuracy, by_lot, program.proved)


class _Program:
    """max right @ q  s.t.  |gaps @ q| <= target, sum of q = 1 in every group, q whole or not."""

    def __init__(self, scores: Floats, constraints: Sequence[Constraint]) -> None:
        self.groups, shape = len(scores), scores.shape[:2]
        sides = [constraint.sides(*shape) for constraint in constraints]
        compared = np.any([a | b for a, b in sides], axis=(0, 2))
        every = [
            _cuts(one) if in_it else [OWN] for one, in_it in zip(scores, compared, strict=True)
        ]
        self.cuts = _fewer(every)
        self.proved = self.cuts == every
        # Rows of (group, class) that are given the second class from each cut on.
        above = [_above(scores[g])[:, cuts] for g, cuts in enumerate(self.cuts)]
        self.owner = np.repeat(np.arange(self.groups), [len(one) for one in self.cuts])
        self.rows = float(scores[compared].sum())
        size = scores.sum(axis=2)
        right = [a[1] + n[0] - a[0] for a, n in zip(above, size, strict=True)]
        self.right = np.concatenate(right) * compared[self.owner]
        self.gaps = np.zeros((len(constraints), len(self.owner)))
        for k, (constraint, pair) in enumerate(zip(constraints, sides, strict=True)):
            for sign, side in zip((1, -1), pair, strict=True):
                for g, c in np.argwhere(side):
                    claimed = c if constraint.claim is None else constraint.claim
                    hits = above[g][c] if claimed == 1 else size[g, c] - above[g][c]
                    self.gaps[k, self.owner == g] += sign * hits / max(size[side].sum(), 1)

    def solve(self, target: float, whole: bool) -> Floats | None:
        """The best q; None where there is none."""
        near = np.abs(np.concatenate(self.cuts) - OWN - 0.25)
        room = target * (1 - ROUNDED)
        found, stopped = self._program(TIE * near - self.right, room, whole)
        return self._one_side(target) if found is None and stopped else found

    def closest(self) -> Floats:
        """The q with the smallest largest gap."""
        found, _ = self._program(np.zeros(len(self.owner)), None, True)
        # Every q is possible: without one the search was stopped.
        return self._one_side(0.0) if found is None else found

    def _one_side(self, target: float) -> Floats:
        """Everyone above the cut or nobody: the more accurate within the target, or the closer."""
        first = np.diff(self.owner, prepend=-1) > 0
        last = np.diff(self.owner, append=self.groups) > 0
        both = (first.astype(np.float64), last.astype(np.float64))
        return min(both, key=lambda q: (max(self.gap(q), target), -self.accuracy(q)))

    def _program(self, cost: Floats, room: float | None, whole: bool) -> tuple[Floats | None, bool]:
        """The best q that was found, and whether the search was stopped before its end.

        With `room` None, the largest gap is one more variable, and what is minimised.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        free = room is None
        # In rows, for which the solver's tolerances are meant.
        scaled = self.gaps * self.rows
        least = np.where(free, self.rows, 0.0) * np.ones((len(scaled), 1))
        once = (self.owner == np.arange(self.groups)[:, None]).astype(np.float64)
        limit = 0.0 if room is None else room * self.rows
        solution = milp(
            np.append(cost, float(free)),
            constraints=[
                LinearConstraint(np.hstack([once, np.zeros((len(once), 1))]), 1, 1),
                LinearConstraint(np.hstack([scaled, -least]), -np.inf, limit),
                LinearConstraint(np.hstack([-scaled, -least]), -np.inf, limit),
            ],
            integrality=np.append(np.full(len(cost), float(whole)), 0.0),
            bounds=Bounds(0, 1),
            options={"mip_rel_gap": 0.0, "node_limit": NODES},
        )
        stopped = solution.status not in (BEST, NONE)
        self.proved &= not stopped
        if solution.x is None:
            return None, stopped
        q: Floats = np.asarray(solution.x[:-1])
        return np.rint(q) if whole else q, stopped

    def accuracy(self, q: Floats) -> float:
        """The share of the compared groups' rows that is right."""
        return float(self.right @ q) / max(self.rows, 1)

    def gap(self, q: Floats) -> float:
        """The largest difference of rates."""
        return float(np.abs(self.gaps @ q).max(initial=0.0))

    def thresholds(self, q: Floats) -> Floats:
        """The cuts as probabilities, one for each group."""
        chosen = np.concatenate(self.cuts)[q > 0.5]
        return np.array([threshold_of(int(cell)) for cell in chosen])


def _above(counts: Floats) -> Floats:
    """Rows of each class at or above every cut, (2, cells + 1)."""
    return np.pad(np.cumsum(counts[:, ::-1], axis=1)[:, ::-1], [(0, 0), (0, 1)])


def _fewer(cuts: list[list[int]]) -> list[list[int]]:
    """At most MOST in all: of each group as many, from the first to the last, and one half.

    Of very many groups these three of each, though they are more.
    """
    if sum(map(len, cuts)) <= MOST:
        return cuts
    each = max(MOST // len(cuts) - 1, 2)
    even = [np.linspace(0, len(one) - 1, min(each, len(one))).round() for one in cuts]
    kept = [{one[int(k)] for k in places} for one, places in zip(cuts, even, strict=True)]
    return [sorted(few | ({OWN} & set(one))) for few, one in zip(kept, cuts, strict=True)]


def _cuts(counts: Floats) -> list[int]:
    """One cut for every way to divide the rows: one half, or the middle between two of them."""
    used = np.flatnonzero(counts.sum(axis=0))
    if not len(used):
        return [OWN]
    low, high = np.append(0, used + 1), np.append(used, CELLS)
    middle = (low + high) // 2
    middle[0], middle[-1] = used[0], used[-1] + 1
    return [OWN if a <= OWN <= b else int(m) for a, b, m in zip(low, high, middle, strict=True)]
