"""A silo's evidence about a model on its rows: sums, whose total over silos suffices for an audit.

The gap of pair k is the mean of a value (loss, or 1 for a row predicted right) over the rows of
(a, c) minus its mean over those of (b, c). Its estimators (docs/concepts/estimators.md) need

    pooled   the tallies of all silos, added: sums of the values and of their squares per cell
    mean     sum_i 1, sum_i D_i and sum_i Var_i over the silos that have rows in both cells, with
             Var_i = s_a^2/m_a + s_b^2/m_b, so that Var[mean] = sum_i Var_i / N^2 = sigma_avg^2 / N

A silo leaves out its cells with fewer rows than its minimum, and reports only that it did so for
the cell (`hidden`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.intervals import Moments
from fairsilo.evaluate.metrics import finite
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Dgeo


@dataclass(frozen=True, eq=False)
class Gaps:
    """For each pair of groups, sums over the silos that have rows in both of its cells."""

    silos: Floats
    """N: the number of these silos."""
    total: Floats
    """sum_i D_i."""
    sure: Floats
    """How many of them have a variance, which needs two rows in both cells."""
    variance: Floats
    """sum_i Var_i over the silos that have one."""

    def __add__(self, other: Gaps) -> Gaps:
        return Gaps(
            self.silos + other.silos,
            self.total + other.total,
            self.sure + other.sure,
            self.variance + other.variance,
        )

    @classmethod
    def of_silo(cls, size: Ints, total: Floats, squares: Floats, pairs: Sequence[Dgeo]) -> Gaps:
        """One silo's part, from rows, sum and sum of squares of the values in every cell."""
        part, gap, sure, variance = np.zeros((4, len(pairs)))
        for k, pair in enumerate(pairs):
            a, b = (pair.a, pair.c), (pair.b, pair.c)
            if not (size[a] and size[b]):
                continue
            means = [total[i] / size[i] for i in (a, b)]
            # An infinite loss makes the gap NaN, so that opposite infinities never meet in a sum.
            part[k], gap[k] = 1, means[0] - means[1] if np.isfinite(means).all() else np.nan
            if min(size[a], size[b]) > 1:
                moments = [Moments.of_sums(int(size[i]), total[i], squares[i]) for i in (a, b)]
                sure[k] = 1
                variance[k] = sum(one.variance_of_mean or 0.0 for one in moments)
        return cls(part, gap, sure, variance)

    def mean(self, k: int) -> float | None:
        """The average of the silos' own gaps."""
        return finite(self.total[k] / self.silos[k]) if self.silos[k] else None

    def variance_of_mean(self, k: int) -> float | None:
        """sigma_avg^2 / N; undefined if the variance of one of the silos is."""
        if not self.silos[k] or self.sure[k] < self.silos[k]:
            return None
        return finite(self.variance[k] / self.silos[k] ** 2)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The sums from which an audit, a run's metrics and its certificate are computed."""

    tally: Tally
    losses: Gaps
    rates: Gaps
    hidden: Ints
    """How many silos left the cell out because it has too few rows there, (groups, classes)."""

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.tally + other.tally,
            self.losses + other.losses,
            self.rates + other.rates,
            self.hidden + other.hidden,
        )

    @classmethod
    def of_silo(cls, tally: Tally, pairs: Sequence[Dgeo], min_cell: int = 0) -> Evidence:
        """One silo's part; its cells with fewer than `min_cell` rows count as empty."""
        small = (tally.cells > 0) & (tally.cells < min_cell)
        shown = Tally(
            np.where(small[:, :, None], 0, tally.counts),
            np.where(small, 0.0, tally.losses),
            np.where(small, 0.0, tally.squares),
            None if small.any() else tally.claimed,
        )
        hits = shown.right.astype(np.float64)
        return cls(
            shown,
            Gaps.of_silo(shown.cells, shown.losses, shown.squares, pairs),
            Gaps.of_silo(shown.cells, hits, hits, pairs),
            small.astype(np.int64),
        )

    def to_vector(self) -> Floats:
        """All of it as one vector, for the wire."""
        tally, gaps = self.tally, (self.losses, self.rates)
        parts = [tally.counts, tally.losses, tally.squares, self.hidden]
        parts += [part for g in gaps for part in (g.silos, g.total, g.sure, g.variance)]
        return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])

    @classmethod
    def from_vector(cls, vector: Floats, groups: int, classes: int, pairs: int) -> Evidence:
        """Rebuild the evidence from `to_vector`, of one silo or summed over several."""
        cells = groups * classes
        sizes = [cells * classes, cells, cells, cells, *[pairs] * 7]
        counts, losses, squares, hidden, *gaps = np.split(vector, np.cumsum(sizes))
        shape = (groups, classes)
        return cls(
            Tally(whole(counts).reshape(*shape, classes), losses.reshape(shape),
                  squares.reshape(shape)),
            Gaps(*gaps[:4]),
            Gaps(*gaps[4:]),
            whole(hidden).reshape(shape),
        )  # fmt: skip

    @staticmethod
    def length(groups: int, classes: int, pairs: int) -> int:
        """The length of `to_vector`."""
        return groups * classes * (classes + 3) + 8 * pairs


def whole(values: Floats) -> Ints:
    """Round counts that were sent as floating-point numbers to integers."""
    return np.rint(values).astype(np.int64)
