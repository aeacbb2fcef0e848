"""A fairness constraint is a vector of row weights (design, section 1).

DGEO between groups a and b in class c (the paper's Definition 1) is

    D(theta) = L^{a,c}(theta) - L^{b,c}(theta) = sum_j v_j l_j(theta)

with v_j > 0 on rows of (a, c), v_j < 0 on rows of (b, c), 0 elsewhere. The
estimators differ only in how much a row weighs:

    mean    +-1/(N m_i^{s,c})  the paper's federated estimation: average of local estimates
    pooled  +-1/m^{s,c}        the DGEO of the union of all rows
    local   +-1/m_i^{s,c}      one constraint per client (LCO)

Other notions of fairness weigh other rows: a `Gap` compares the mean losses of two sets of cells
(group, class), and `Dgeo` is the gap between two cells. A silo weighs its own rows; of the
federation it needs only `Totals`, which is a sum over silos.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from fairsilo.arrays import Floats, Ints, Mask, Summed
from fairsilo.errors import FairSiloError

Measure = Literal["loss", "rate"]
"""What of a row the constraints weigh: its loss, or whether it is predicted wrong."""
Estimator = Literal["mean", "pooled", "local"]
ESTIMATORS: tuple[Estimator, ...] = ("mean", "pooled", "local")


class Constraint(Protocol):
    """|D_k| <= epsilon_k: whose mean losses D_k compares."""

    @property
    def claim(self) -> int | None:
        """The class that every row is measured against; None is each row's own."""

    def sides(self, groups: int, classes: int) -> tuple[Mask, Mask]:
        """The cells that weigh positively and those that weigh negatively, (groups, classes)."""


@dataclass(frozen=True)
class Dgeo:
    """|L^{a,c} - L^{b,c}| <= epsilon: groups a and b, protected class c, all as indices."""

    a: int
    b: int
    c: int

    @property
    def claim(self) -> int | None:
        """Every row counts with the loss of its own class."""
        return None

    def sides(self, groups: int, classes: int) -> tuple[Mask, Mask]:
        """Cell (a, c) and cell (b, c)."""
        return Gap((self.a,), (self.b,), (self.c,)).sides(groups, classes)


@dataclass(frozen=True)
class Gap:
    """Mean loss over groups `a` less that over groups `b`, rows of the classes `c` only.

    Without `b` it is the mean loss of `a` itself. With a `claim` the loss of a row is the one it
    would have if its class were that one: how much the model speaks against the claim.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    c: tuple[int, ...]
    claim: int | None = None

    def sides(self, groups: int, classes: int) -> tuple[Mask, Mask]:
        """The cells of a and those of b."""
        plus, minus = np.zeros((2, groups, classes), dtype=np.bool_)
        plus[np.ix_(self.a, self.c)] = True
        minus[np.ix_(self.b, self.c)] = True
        return plus, minus


ClassWeight = tuple[float, ...] | Literal["balanced"]
"""What a row of each class weighs in the objective, or that all classes weigh the same in all."""


def count_cells(y: Ints, s: Ints, groups: int, classes: int, weight: Floats | None = None) -> Any:
    """m^{s,c}: how many rows each (group, class) has, or what they weigh, (groups, classes)."""
    found = np.bincount(s * classes + y, weight, minlength=groups * classes)
    return found.reshape(groups, classes)


def large_enough(cells: Any, min_cell: int, rows: Ints | None = None) -> Any:
    """The counts, zero where a cell has less than `min_cell` rows: it takes no part in constraints.

    A silo decides that for itself, so that nobody sees a sum over one or two of its rows. `rows`:
    how many they are, where the counts are weights.
    """
    return np.where((cells if rows is None else rows) < min_cell, 0, cells)


@dataclass(frozen=True)
class Totals(Summed):
    """What a silo must know of the federation to weigh its rows: sums over silos only."""

    rows: float
    """How many rows there are; where rows have weights, their sum, and so below."""
    cells: Any
    """m^{s,c} over all silos, without the cells that a silo finds too small."""
    taking_part: Ints
    """For each constraint, how many silos have rows on both of its sides."""
    by_class: Floats = field(default_factory=lambda: np.zeros(0))
    """The rows of every class, small cells included; nothing unless classes have weights."""

    @classmethod
    def of_silo(
        cls,
        cells: Any,
        constraints: Sequence[Constraint],
        min_cell: int = 0,
        rows: Ints | None = None,
        by_class: bool = False,
    ) -> Totals:
        """One silo's summand; `rows`: how many there are in the cells, where these are weights."""
        kept = large_enough(cells, min_cell, rows)
        part = [int(_sizes(kept, k) is not None) for k in constraints]
        sums = cells.sum(axis=0).astype(np.float64) if by_class else np.zeros(0)
        return cls(cells.sum().item(), kept, np.array(part, dtype=np.int64), sums)

    def in_objective(self, class_weight: ClassWeight | None) -> float:
        """What all rows weigh in the objective, weights of classes included."""
        if class_weight is None:
            return float(self.rows)
        return float(class_factors(class_weight, self.by_class) @ self.by_class)

    def to_vector(self) -> Floats:
        """All counts as one vector."""
        parts = (np.array([self.rows]), self.cells.ravel(), self.taking_part, self.by_class)
        return np.concatenate(parts).astype(np.float64)

    @classmethod
    def from_vector(
        cls,
        vector: Floats,
        groups: int,
        classes: int,
        weighted: bool = False,
        by_class: bool = False,
    ) -> Totals:
        """What `to_vector` wrote; as whole numbers, unless rows have weights."""
        counts = vector if weighted else np.rint(vector).astype(np.int64)
        size = 1 + groups * classes
        cells, end = counts[1:size].reshape(groups, classes), len(vector) - by_class * classes
        part = np.rint(counts[size:end]).astype(np.int64)
        return cls(counts[0].item(), cells, part, counts[end:].astype(np.float64))


def class_factors(class_weight: ClassWeight | None, by_class: Floats) -> Floats:
    """What a row of each class weighs in the objective.

    `balanced`: so much that all classes that occur weigh the same, and all rows what they did.
    """
    if class_weight is None:
        return np.ones(len(by_class))
    if class_weight != "balanced":
        return np.array(class_weight, np.float64)
    share = float(by_class.sum()) / (int(np.count_nonzero(by_class)) or 1)
    return np.divide(share, by_class, out=np.ones(len(by_class)), where=by_class > 0)


def _sizes(cells: Any, constraint: Constraint) -> tuple[float, float] | None:
    """How many rows the two sides have; None where a side that is asked for has none."""
    plus, minus = constraint.sides(*cells.shape)
    sizes = cells[plus].sum().item(), cells[minus].sum().item()
    missing = not sizes[0] or (minus.any() and not sizes[1])
    return None if missing else sizes


def row_weights(
    constraints: Sequence[Constraint],
    estimator: Estimator,
    y: Ints,
    s: Ints,
    totals: Totals,
    min_cell: int = 0,
    weight: Floats | None = None,
) -> Floats:
    """v (len(constraints), rows): the weights that one silo gives its rows.

    A silo with an empty side weighs nothing under `mean` and `local` (it takes no part, and N
    counts those that do); under `pooled` its other side still counts. A cell of fewer than
    `min_cell` rows counts as empty. A row of weight u counts as u rows.
    """
    groups, classes = totals.cells.shape
    rows = count_cells(y, s, groups, classes)
    cells = large_enough(count_cells(y, s, groups, classes, weight), min_cell, rows)
    v = np.zeros((len(constraints), len(y)))
    for k, constraint in enumerate(constraints):
        plus, minus = constraint.sides(*cells.shape)
        if estimator == "pooled":
            sizes = totals.cells[plus].sum(), totals.cells[minus].sum()
            silos = 1
        else:
            own = _sizes(cells, constraint)
            if own is None:
                continue
            sizes = own
            silos = max(int(totals.taking_part[k]), 1) if estimator == "mean" else 1
        counted = (cells > 0)[s, y]
        in_a, in_b = plus[s, y] / (sizes[0] or 1), minus[s, y] / (sizes[1] or 1)
        v[k] = (in_a - in_b) * counted / silos
    return v if weight is None else v * weight


def check_defined(
    constraints: Sequence[Constraint],
    estimator: Estimator,
    totals: Totals,
    groups: Sequence[str],
    classes: Sequence[str],
) -> None:
    """Refuse a constraint that no row can measure: it would be silently fair."""
    for k, constraint in enumerate(constraints):
        sides = [side for side in constraint.sides(*totals.cells.shape) if side.any()]
        names = [_listed(groups, np.any(side, axis=1)) for side in sides]
        where = _listed(classes, np.any(sides[0], axis=0))
        for side, name in zip(sides, names, strict=True):
            if totals.cells[side].sum() == 0:
                raise FairSiloError(
                    f"group {name} has no training row of class {where} that takes part, so its "
                    "fairness cannot be measured: choose other `groups`, another "
                    "`protected_class`, a lower `min_cell`, or give more rows"
                )
        if estimator != "pooled" and totals.taking_part[k] == 0:
            remedy = "`method` fedfair with " if estimator == "local" else ""
            raise FairSiloError(
                f"no client has rows of both {' and '.join(names)} in class {where}, which the "
                f"estimator {estimator!r} needs: use {remedy}`estimator` pooled"
            )


def _listed(names: Sequence[str], chosen: Iterable[bool]) -> str:
    """The chosen names, quoted."""
    return " or ".join(repr(name) for name, yes in zip(names, chosen, strict=True) if yes)
