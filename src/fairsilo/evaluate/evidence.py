"""What a silo says of a model on its rows: sums, so that the sum over silos is all an audit needs.

A gap of pair k is the mean of a value (loss, or 1 for a row predicted right) over the rows of
(a, c) less its mean over those of (b, c). The estimators of design section 1 need

    pooled   the tallies of all silos, added: sums of the values and of their squares per cell
    mean     sum_i 1, sum_i D_i and sum_i Var_i over the silos that have rows in both cells, with
             Var_i = s_a^2/m_a + s_b^2/m_b, so that Var[mean] = sum_i Var_i / N^2 = sigma_avg^2 / N

A cell with fewer rows than the silo's minimum is left out inside the silo; what leaves is that
one silo did so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairsilo.arrays import Floats, Ints, Summed
from fairsilo.evaluate.intervals import Moments
from fairsilo.evaluate.metrics import Side, finite, loss_sides, rate_sides
from fairsilo.evaluate.scores import CELLS, ranked
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint


@dataclass(frozen=True, eq=False)
class Gaps(Summed):
    """For each pair of groups, sums over the silos that have rows in both of its cells."""

    silos: Floats
    """N: how many silos take part."""
    total: Floats
    """sum_i D_i."""
    sure: Floats
    """How many of them know their own variance, for which both cells need two rows."""
    variance: Floats
    """sum_i Var_i over these."""

    @classmethod
    def of_silo(cls, sides: Sequence[Sequence[Side]]) -> Gaps:
        """One silo's summand; a constraint with a side without rows has none."""
        part, gap, sure, variance = np.zeros((4, len(sides)))
        for k, each in enumerate(sides):
            if not all(size for size, _, _ in each):
                continue
            means = [total / size for size, total, _ in each]
            # An infinite loss makes the gap NaN, which adds up without opposite infinities.
            difference = means[0] - sum(means[1:])
            part[k], gap[k] = 1, difference if np.isfinite(means).all() else np.nan
            if min(size for size, _, _ in each) > 1:
                moments = [Moments.of_sums(*one) for one in each]
                sure[k] = 1
                variance[k] = sum(one.variance_of_mean or 0.0 for one in moments)
        return cls(part, gap, sure, variance)

    def mean(self, k: int) -> float | None:
        """The average of the silos' own gaps."""
        return finite(self.total[k] / self.silos[k]) if self.silos[k] else None

    def variance_of_mean(self, k: int) -> float | None:
        """sigma_avg^2 / N; undefined where a silo does not know its part of it."""
        if not self.silos[k] or self.sure[k] < self.silos[k]:
            return None
        return finite(self.variance[k] / self.silos[k] ** 2)


@dataclass(frozen=True, eq=False)
class Evidence(Summed):
    """Everything that an audit, a run's metrics and its certificate are made from."""

    tally: Tally
    losses: Gaps
    rates: Gaps
    hidden: Ints
    """How many silos left the cell out because it has too few rows there, (groups, classes)."""
    wagers: Floats = field(default_factory=lambda: np.zeros(0))
    """The sums of `betting` for the cells that pairs compare; none where nobody asked for them."""

    @classmethod
    def of_silo(cls, tally: Tally, pairs: Sequence[Constraint], min_cell: int = 0) -> Evidence:
        """One silo's summand; its cells with fewer than `min_cell` rows count as empty."""
        rows = tally.cells if tally.rows is None else tally.rows
        small = (rows > 0) & (rows < min_cell)
        shown = Tally(
            np.where(small[:, :, None], 0, tally.counts),
            np.where(small, 0.0, tally.losses),
            np.where(small, 0.0, tally.squares),
            None if small.any() else tally.claimed,
            None if small.any() else tally.scores,
            None if tally.rows is None else np.where(small, 0, tally.rows),
            None if tally.spread is None else np.where(small, 0.0, tally.spread),
        )
        return cls(
            shown,
            Gaps.of_silo([loss_sides(shown, pair) for pair in pairs]),
            Gaps.of_silo([rate_sides(shown, pair) for pair in pairs]),
            small.astype(np.int64),
        )

    def to_vector(self, claims: bool = False, scores: bool = False) -> Floats:
        """All of it as one vector, with the losses under claims and histograms or without."""
        tally, gaps = self.tally, (self.losses, self.rates)
        parts = [tally.counts, tally.losses, tally.squares, self.hidden]
        parts += [part for g in gaps for part in (g.silos, g.total, g.sure, g.variance)]
        if tally.rows is not None and tally.spread is not None:
            parts += [tally.rows, tally.spread]
        if claims:
            none = np.zeros((2, *tally.losses.shape))
            parts.append(none if tally.claimed is None else tally.claimed)
        if scores:
            shape = score_shape(*tally.losses.shape)
            parts.append(np.zeros(shape) if tally.scores is None else tally.scores)
        return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])

    @classmethod
    def from_vector(
        cls,
        vector: Floats,
        groups: int,
        classes: int,
        pairs: int,
        claims: bool = False,
        scores: bool = False,
        weighted: bool = False,
    ) -> Evidence:
        """What `to_vector` wrote, of one silo or of the sum of several."""
        cells = groups * classes
        sizes = [cells * classes, cells, cells, cells, *[pairs] * 8, *[cells * weighted] * 2]
        counts, losses, squares, hidden, *gaps, rows, spread, rest = np.split(
            vector, np.cumsum(sizes)
        )
        shape, kept = (groups, classes), (lambda values: values) if weighted else whole
        claimed = rest[: 2 * cells].reshape(2, *shape) if claims else None
        counted = kept(rest[2 * cells * claims :]).reshape(score_shape(*shape)) if scores else None
        return cls(
            Tally(kept(counts).reshape(*shape, classes), losses.reshape(shape),
                  squares.reshape(shape), claimed, counted,
                  whole(rows).reshape(shape) if weighted else None,
                  spread.reshape(shape) if weighted else None),
            Gaps(*gaps[:4]),
            Gaps(*gaps[4:]),
            whole(hidden).reshape(shape),
        )  # fmt: skip

    @staticmethod
    def length(
        groups: int,
        classes: int,
        pairs: int,
        claims: bool = False,
        scores: bool = False,
        weighted: bool = False,
    ) -> int:
        """How many numbers `to_vector` gives."""
        more = math.prod(score_shape(groups, classes)) if scores else 0
        return groups * classes * (classes + 3 + 2 * (claims + weighted)) + 8 * pairs + more


def score_shape(groups: int, classes: int) -> tuple[int, int, int, int]:
    """The shape of a tally's histograms."""
    return groups, len(ranked(classes)), 2, CELLS


def whole(values: Floats) -> Ints:
    """Counts that came over the wire as floating-point numbers."""
    return np.rint(values).astype(np.int64)
