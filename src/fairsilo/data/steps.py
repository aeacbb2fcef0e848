"""Steps of a number: at most so many of about as many rows each, found from counts.

Counts over a fine grid are sums over rows, so silos find quantiles together without showing a row.
The first grid follows from mean and spread and reaches from minus to plus infinity, finest near
the mean; the second has its cells where the rows are. A single value with the rows of a whole step
or more (a spike, such as zero) is a step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairsilo.arrays import Floats, Ints

FINE = 1024
"""Cells of a grid."""
FEWEST = 5
"""A step has at least so many rows, unless it is a spike or between two of them."""


@dataclass(frozen=True)
class Steps:
    """Step k of a number x has edges[k-1] <= x < edges[k]; missing cells may be a step, the last.

    Without a step of their own, missing cells are in none.
    """

    edges: tuple[float, ...]
    spikes: tuple[int, ...]
    """The steps that are single values with the rows of an even step or more."""
    missing: bool

    @property
    def width(self) -> int:
        """How many steps there are, the one for missing cells included."""
        return len(self.edges) + 1 + self.missing

    def codes(self, values: Floats) -> Ints:
        """The step of every value, -1 for none."""
        step = np.searchsorted(np.array(self.edges), values, side="right")
        return np.where(np.isnan(values), len(self.edges) + 1 if self.missing else -1, step)

    @property
    def labels(self) -> tuple[str, ...]:
        """The steps in words: "< 22", "[22, 25)", ">= 60", "(missing)"."""
        ends = [f"{edge:.10g}" for edge in self.edges]
        if not ends:
            return ("any", *(("(missing)",) * self.missing))
        between = (f"[{low}, {high})" for low, high in pairwise(ends))
        words = (f"< {ends[0]}", *between, f">= {ends[-1]}")
        return words + ("(missing)",) * self.missing


def first_grid(mean: float, scale: float) -> Floats:
    """The inner edges of a grid over all numbers, even in u = t / (1 + |t|).

    t is the number of spreads from the mean. A cell is scale / 512 wide at the mean and scale / 14
    five spreads away.
    """
    u = np.linspace(-1, 1, FINE + 1)[1:-1]
    return np.asarray(mean + scale * u / (1 - np.abs(u)))


def second_grid(edges: Floats, counts: Floats) -> Floats:
    """The inner edges of a grid with more cells where the first has more rows."""
    # The root, so that a spike does not take all cells for itself.
    weight = np.sqrt(counts)
    inner, rows = np.cumsum(weight)[:-1], weight.sum()
    if not rows:
        return edges
    # Cells without rows take no part: between two edges of the same height nothing is cut.
    kept = np.concatenate([[True], np.diff(inner) > 0])
    ends = kept | np.append(kept[1:], True)
    found = np.interp(np.arange(1, FINE) * rows / FINE, inner[ends], edges[ends])
    return np.asarray(found)


def steps_of(edges: Floats, counts: Floats, missing: float, most: int) -> Steps:
    """At most so many steps, by counts in the cells of a grid with these inner edges."""
    filled = np.flatnonzero(counts > 0.5)
    target = _target(counts[filled], most)
    parts = _parts(filled, counts, target)
    while len(parts) > most:
        target *= 1.1
        parts = _parts(filled, counts, target)
    between = [_short(edges[left[-1]], edges[right[0] - 1]) for left, right in pairwise(parts)]
    spikes = [k for k, part in enumerate(parts) if len(part) == 1 and counts[part[0]] >= target]
    return Steps(tuple(between), tuple(spikes), bool(missing > 0.5))


def _target(counts: Floats, most: int) -> float:
    """Rows of a step, when spikes have theirs alone and the other rows share the other steps."""
    target = np.inf
    while True:
        spikes = counts >= target
        rest, left = counts[~spikes].sum(), max(most - int(spikes.sum()), 1)
        lower = max(rest / left, FEWEST)
        if lower >= target:
            return float(target)
        target = lower


def _parts(filled: Ints, counts: Floats, target: float) -> list[list[int]]:
    """The cells of every step, in order."""
    parts: list[list[int]] = []
    rows: list[float] = []
    closed = True
    for cell in map(int, filled):
        spike = bool(counts[cell] >= target)
        if closed or spike or rows[-1] + counts[cell] / 2 >= target:
            parts.append([])
            rows.append(0.0)
        parts[-1].append(cell)
        rows[-1] += counts[cell]
        closed = spike
    return _merged(parts, rows, counts, target)


def _merged(
    parts: list[list[int]], rows: list[float], counts: Floats, target: float
) -> list[list[int]]:
    """What is left over before a spike and at the end joins the step before it, if that is none."""
    kept: list[list[int]] = []
    for part, size in zip(parts, rows, strict=True):
        alone = bool(kept) and len(kept[-1]) == 1 and counts[kept[-1][0]] >= target
        if kept and size < target / 2 and not alone:
            kept[-1] = kept[-1] + part
        else:
            kept.append(part)
    return kept


def _short(low: float, high: float) -> float:
    """The number of fewest digits from low to high, near the middle."""
    middle = (low + high) / 2
    for digits in range(-12, 17):
        found = round(middle, digits)
        if low <= found <= high:
            return float(found) + 0.0
    return float(middle)


@dataclass(frozen=True)
class Pair:
    """Two features crossed: their steps or values in a few coarse ones each, and all cells of both.

    `first` and `second` are blocks of the encoder's columns; `rows` and `columns` say which coarse
    step each of their columns belongs to.
    """

    first: int
    second: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """How many coarse steps each of the two has."""
        return max(self.rows) + 1, max(self.columns) + 1

    @property
    def width(self) -> int:
        """How many cells there are."""
        return self.shape[0] * self.shape[1]

    def codes(self, first: Ints, second: Ints) -> Ints:
        """The cell of every row, from its columns in the two blocks; -1 for none."""
        none = (first < 0) | (second < 0)
        a = np.array((*self.rows, 0))[first]
        b = np.array((*self.columns, 0))[second]
        return np.where(none, -1, a * self.shape[1] + b)


def coarse(counts: Sequence[float], ordered: bool, most: int) -> tuple[int, ...]:
    """For every step or value one of at most `most` coarse ones, of about as many rows each.

    Of a number neighbours go together; of a category the largest values stay alone and the others
    are one.
    """
    if len(counts) <= most:
        return tuple(range(len(counts)))
    rows = np.asarray(counts, np.float64)
    if not ordered:
        rank = np.argsort(np.argsort(-rows, kind="stable"), kind="stable")
        return tuple(int(one) for one in np.minimum(rank, most - 1))
    every, target = np.arange(len(rows)), _target(rows, most)
    parts = _parts(every, rows, target)
    while len(parts) > most:
        target *= 1.1
        parts = _parts(every, rows, target)
    return tuple(k for k, part in enumerate(parts) for _ in part)
