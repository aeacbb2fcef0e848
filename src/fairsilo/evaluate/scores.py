"""How well probabilities rank and fit: from histograms, whose sum over silos is all that is needed.

The probability p of a class falls into one of 256 cells, equally wide in log(p / (1 - p)) from -8
to 8. With a_k rows of the class in cell k, b_k others, A and B in all,

    AUC = sum_k a_k (b_0 + ... + b_(k-1) + b_k / 2) / (A B)

which is exact for probabilities rounded to cells. Its variance is DeLong's (1988): that of the
placements of the rows of the class among the others, over A, plus the reverse, over B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.intervals import LEVEL, quantile

CELLS = 256
PER_UNIT = 16
"""Cells in a unit of log odds."""
EDGES = (np.arange(1, CELLS) - CELLS // 2) / PER_UNIT
"""Log odds between cells."""
POINTS = 64
"""The most points of a curve in metrics.json."""
TENTHS = 10


def ranked(classes: int) -> tuple[int, ...]:
    """The classes whose probabilities are counted: of two the second, else each."""
    return (1,) if classes == 2 else tuple(range(classes))


def counted(
    probabilities: Floats, y: Ints, s: Ints, groups: int, weight: Floats | None = None
) -> Any:
    """Rows by group, class that is asked about, whether they are of it, and cell."""
    classes = probabilities.shape[1]
    found = []
    for c in ranked(classes):
        place = cells_of(probabilities[:, c])
        index = (s * 2 + (y == c)) * CELLS + place
        each = np.bincount(index, weight, minlength=groups * 2 * CELLS)
        found.append(each.reshape(groups, 2, CELLS))
    return np.stack(found, axis=1)


def cells_of(p: Floats) -> Ints:
    """The cell of each probability; one at an edge is in the upper cell."""
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-np.minimum(p, 1.0))
    place: Ints = np.searchsorted(EDGES, odds, side="right").astype(np.int64)
    return place


def threshold_of(cell: int) -> float:
    """The lowest probability of a cell; of the lowest cell 0, above the highest 1."""
    if not 0 < cell < CELLS:
        return float(cell >= CELLS)
    return float(1 / (1 + np.exp(-EDGES[cell - 1])))


def middles() -> Floats:
    """A probability for every cell."""
    return 1 / (1 + np.exp(-(np.arange(CELLS) - CELLS / 2 + 0.5) / PER_UNIT))


def auc(counts: Ints) -> float | None:
    """The chance that a row of the class has a higher probability than another; (2, cells)."""
    others, own = counts.astype(np.float64)
    if not own.sum() or not others.sum():
        return None
    return float(own @ _below(others) / (own.sum() * others.sum()))


def auc_interval(counts: Ints, level: float = LEVEL) -> list[float] | None:
    """DeLong's interval; None with fewer than two rows on a side."""
    value = auc(counts)
    others, own = counts.astype(np.float64)
    if value is None or min(own.sum(), others.sum()) < 2:
        return None
    variance = 0.0
    for mine, theirs in ((own, others), (others, own)):
        placed = _below(theirs) / theirs.sum()
        mean = mine @ placed / mine.sum()
        spread = mine @ np.square(placed - mean) / (mine.sum() - 1)
        variance += spread / mine.sum()
    reach = quantile(level) * float(np.sqrt(variance))
    return [max(value - reach, 0.0), min(value + reach, 1.0)]


def _below(counts: Floats) -> Floats:
    """For each cell, the rows in lower ones and half of its own."""
    below: Floats = np.cumsum(counts) - counts / 2
    return below


def overall(counts: Ints) -> float | None:
    """The AUC of all groups together, averaged over the classes asked about."""
    each = [auc(one) for one in counts.sum(axis=0)]
    known = [one for one in each if one is not None]
    return float(np.mean(known)) if len(known) == len(each) else None


def curves_of(counts: Ints, groups: Sequence[str], classes: Sequence[str]) -> list[dict[str, Any]]:
    """`curves` of metrics.json: for each class, of all rows and of each group, AUC and curves."""
    found = []
    for k, c in enumerate(ranked(len(classes))):
        lines = [("all", counts[:, k].sum(axis=0)), *zip(groups, counts[:, k], strict=True)]
        found.append({"class": classes[c], "lines": [_line(name, one) for name, one in lines]})
    return found


def _line(name: str, counts: Ints) -> dict[str, Any]:
    others, own = counts.astype(np.float64)
    # From the highest threshold down: rows at or above it.
    hits, false = np.cumsum(own[::-1]), np.cumsum(others[::-1])
    used = np.flatnonzero((own + others)[::-1])
    used = used[np.unique(np.linspace(0, len(used) - 1, min(len(used), POINTS)).astype(int))]
    both = bool(own.sum() and others.sum())
    return {
        "group": name,
        "rows": round(counts.sum()),
        "of_class": round(own.sum()),
        "auc": auc(counts),
        "auc_interval": auc_interval(counts),
        "roc": [
            [0.0, 0.0],
            *([float(false[k] / others.sum()), float(hits[k] / own.sum())] for k in used),
        ] if both else [],
        "precision_recall": [
            [float(hits[k] / own.sum()), float(hits[k] / (hits[k] + false[k]))] for k in used
        ] if own.sum() else [],
        "calibration": _calibration(own, others),
    }  # fmt: skip


def _calibration(own: Floats, others: Floats) -> list[list[float]]:
    """Mean probability and share of the class, in at most ten parts with equally many rows."""
    rows = own + others
    if not rows.sum():
        return []
    part = np.minimum((TENTHS * (np.cumsum(rows) - rows / 2) / rows.sum()).astype(int), TENTHS - 1)
    size, right, told = (
        np.bincount(part, weights=w, minlength=TENTHS) for w in (rows, own, rows * middles())
    )
    return [
        [float(told[k] / size[k]), float(right[k] / size[k]), round(size[k])]
        for k in np.flatnonzero(size)
    ]


def best_cell(counts: Ints, aim: str) -> int:
    """From which cell on rows are given the class: by `balanced` accuracy or `f1`; (2, cells)."""
    others, own = counts.astype(np.float64)
    hits, false = np.cumsum(own[::-1])[::-1], np.cumsum(others[::-1])[::-1]
    if aim == "f1":
        either = hits + false + own.sum()
        values = 2 * hits / np.where(either > 0, either, 1)
    else:
        values = hits / (own.sum() or 1) - false / (others.sum() or 1)
    return int(np.argmax(values))


def share_cell(counts: Ints, share: float) -> int:
    """From which cell on the share of rows is nearest to this one."""
    rows = counts.sum(axis=0)
    above = np.append(np.cumsum(rows[::-1])[::-1], 0) / (rows.sum() or 1)
    return min(int(np.argmin(np.abs(above - share))), len(rows) - 1)
