"""A fairness constraint is a vector of row weights (design, section 1).

DGEO between groups a and b in class c (the paper's Definition 1) is

    D(theta) = L^{a,c}(theta) - L^{b,c}(theta) = sum_j v_j l_j(theta)

with v_j > 0 on rows of (a, c), v_j < 0 on rows of (b, c), 0 elsewhere. The
estimators differ only in how much a row weighs:

    mean    +-1/(N m_i^{s,c})  the paper's federated estimation: average of local estimates
    pooled  +-1/m^{s,c}        the DGEO of the union of all rows
    local   +-1/m_i^{s,c}      one constraint per client (LCO)

A silo weighs its own rows; of the federation it needs only `Totals`, which is a
sum over silos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fairsilo.errors import FairSiloError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Estimator = Literal["mean", "pooled", "local"]
ESTIMATORS: tuple[Estimator, ...] = ("mean", "pooled", "local")


@dataclass(frozen=True)
class Dgeo:
    """|L^{a,c} - L^{b,c}| <= epsilon: groups a and b, protected class c, all as indices."""

    a: int
    b: int
    c: int

    def sign(self, y: Ints, s: Ints) -> Floats:
        """+1 on rows of (a, c), -1 on rows of (b, c), 0 elsewhere."""
        in_class = y == self.c
        plus = in_class & (s == self.a)
        minus = in_class & (s == self.b)
        sign: Floats = plus.astype(np.float64) - minus.astype(np.float64)
        return sign


def count_cells(y: Ints, s: Ints, groups: int, classes: int) -> Ints:
    """m^{s,c}: how many rows each (group, class) cell has, (groups, classes)."""
    return np.bincount(s * classes + y, minlength=groups * classes).reshape(groups, classes)


def large_enough(cells: Ints, min_cell: int) -> Ints:
    """The counts, zero where they are below `min_cell`: such a cell takes no part in constraints.

    A silo decides that for itself, so that nobody sees a sum over one or two of its rows.
    """
    kept: Ints = np.where(cells < min_cell, 0, cells)
    return kept


@dataclass(frozen=True)
class Totals:
    """What a silo must know of the federation to weigh its rows: sums over silos only."""

    rows: int
    cells: Ints
    """m^{s,c} over all silos, without the cells that a silo finds too small."""
    taking_part: Ints
    """For each constraint, how many silos have a row in both of its cells."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.cells + other.cells,
            self.taking_part + other.taking_part,
        )

    @classmethod
    def of_silo(cls, cells: Ints, constraints: Sequence[Dgeo], min_cell: int = 0) -> Totals:
        """One silo's summand."""
        kept = large_enough(cells, min_cell)
        part = [int(kept[k.a, k.c] > 0 and kept[k.b, k.c] > 0) for k in constraints]
        return cls(int(cells.sum()), kept, np.array(part, dtype=np.int64))


def row_weights(
    constraints: Sequence[Dgeo],
    estimator: Estimator,
    y: Ints,
    s: Ints,
    totals: Totals,
    min_cell: int = 0,
) -> Floats:
    """v (len(constraints), rows): the weights that one silo gives its rows.

    A silo with an empty cell, or one of fewer than `min_cell` rows, weighs nothing under `mean` and
    `local` (it takes no part, and N counts those that do); under `pooled` its other cell still
    counts.
    """
    cells = large_enough(count_cells(y, s, *totals.cells.shape), min_cell)
    v = np.zeros((len(constraints), len(y)))
    for k, constraint in enumerate(constraints):
        if estimator == "pooled":
            size = totals.cells[:, constraint.c]
        elif cells[constraint.a, constraint.c] and cells[constraint.b, constraint.c]:
            silos = totals.taking_part[k] if estimator == "mean" else 1
            size = cells[:, constraint.c] * silos
        else:
            continue
        v[k] = constraint.sign(y, s) * (cells[s, y] > 0) / np.maximum(size, 1)[s]
    return v


def check_defined(
    constraints: Sequence[Dgeo],
    estimator: Estimator,
    totals: Totals,
    groups: Sequence[str],
    classes: Sequence[str],
) -> None:
    """Refuse a constraint that no row can measure: it would be silently fair."""
    for k, constraint in enumerate(constraints):
        name = classes[constraint.c]
        for g in (constraint.a, constraint.b):
            if totals.cells[g, constraint.c] == 0:
                raise FairSiloError(
                    f"group {groups[g]!r} has no training row of class {name!r} that takes part, "
                    "so its fairness cannot be measured: choose other --groups, another "
                    "--protected-class, a lower --min-cell, or give more rows"
                )
        if estimator != "pooled" and totals.taking_part[k] == 0:
            remedy = "--method fedfair with " if estimator == "local" else ""
            raise FairSiloError(
                f"no client has rows of both {groups[constraint.a]!r} and "
                f"{groups[constraint.b]!r} in class {name!r}, which the estimator "
                f"{estimator!r} needs: use {remedy}--estimator pooled"
            )
