"""Confidence intervals for a rate, a gap between rates and a gap between mean losses.

    rate        Wilson's score interval (Wilson 1927)
    rate gap    Newcombe's hybrid score interval, method 10 of Newcombe (1998)
    both        the bootstrap: quantiles of the rates from `redraw`
    loss gap    D +- z sqrt(Var), the normal approximation, and
                D +- r with r = sqrt(Var / (1 - level)), Chebyshev's inequality (the paper's bound)

with Var = s_a^2/m_a + s_b^2/m_b. Chebyshev assumes nothing about the distribution of the losses,
but Var itself is estimated: with few rows it can be far too small, so that both are given from
FEWEST rows of each sample on, and where it is 0 neither is. All intervals need rows that the model
did not train on. Undefined intervals are None, never NaN.

The bootstrap needs only counts: redrawing m rows of which h are hits, with replacement, is drawing
Binomial(m, h/m) hits. With few misses that understates the error of the rate (with none the error
would be zero), so half a hit and half a miss are added: Binomial(m, (h + 1/2)/(m + 1)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from fairsilo.arrays import Floats, Ints

LEVEL = 0.95
"""The default confidence level."""
FEWEST = 100
"""With fewer rows of a sample an estimated variance can be far too small, and says nothing."""


@dataclass(frozen=True)
class Interval:
    """All values from low to high."""

    low: float
    high: float

    def within(self, limit: float) -> bool:
        """Whether every value is at most `limit` in absolute value."""
        return max(abs(self.low), abs(self.high)) <= limit

    def beyond(self, limit: float) -> bool:
        """Whether every value is above `limit` in absolute value."""
        return self.low > limit or self.high < -limit


@dataclass(frozen=True)
class Moments:
    """Size, mean and standard deviation (divided by the size) of a sample."""

    rows: float
    mean: float
    std: float

    @classmethod
    def of_sums(cls, rows: float, total: float, squares: float) -> Moments:
        """From the sum and the sum of squares of at least one value."""
        mean = float(total) / rows
        return cls(rows, mean, math.sqrt(max(float(squares) / rows - mean * mean, 0.0)))

    @property
    def variance_of_mean(self) -> float | None:
        """s^2/m with the unbiased s^2; undefined for a single row."""
        return self.std**2 / (self.rows - 1) if self.rows > 1 else None


def together(parts: Sequence[Moments]) -> Moments | None:
    """The moments of the union of samples; undefined without rows."""
    rows = sum(part.rows for part in parts)
    if not rows:
        return None
    mean = sum(part.rows * part.mean for part in parts) / rows
    square = sum(part.rows * (part.std**2 + (part.mean - mean) ** 2) for part in parts) / rows
    return Moments(rows, mean, math.sqrt(square))


def wilson(hits: float, rows: float, level: float = LEVEL) -> Interval | None:
    """Wilson's score interval for a rate; undefined without rows."""
    if rows == 0:
        return None
    z = quantile(level)
    rate, scale = hits / rows, 1 + z**2 / rows
    centre = (rate + z**2 / (2 * rows)) / scale
    half = z * math.sqrt(rate * (1 - rate) / rows + z**2 / (4 * rows**2)) / scale
    # For hits = 0 and hits = rows the exact ends are 0 and 1; rounding would miss them.
    return Interval(
        0.0 if hits == 0 else max(centre - half, 0.0),
        1.0 if hits == rows else min(centre + half, 1.0),
    )


def newcombe(
    hits_a: float, rows_a: float, hits_b: float, rows_b: float, level: float = LEVEL
) -> Interval | None:
    """Newcombe's hybrid score interval for rate a minus rate b."""
    a, b = wilson(hits_a, rows_a, level), wilson(hits_b, rows_b, level)
    if a is None or b is None:
        return None
    p, q = hits_a / rows_a, hits_b / rows_b
    return Interval(
        p - q - math.hypot(p - a.low, b.high - q),
        p - q + math.hypot(a.high - p, q - b.low),
    )


def normal_gap(
    a: Moments, b: Moments, level: float = LEVEL, fewest: int = FEWEST
) -> Interval | None:
    """Mean a minus mean b, by the normal approximation."""
    return _around(a, b, quantile(level), fewest)


def chebyshev_gap(
    a: Moments, b: Moments, level: float = LEVEL, fewest: int = FEWEST
) -> Interval | None:
    """Mean a minus mean b: P(|error| < r) >= 1 - Var/r^2 = level; approximate, Var is estimated."""
    return _around(a, b, chebyshev_deviations(level), fewest)


def quantile(level: float) -> float:
    """The half width of a two-sided normal interval in standard deviations: 1.96 for 95 %."""
    return NormalDist().inv_cdf((1 + level) / 2)


def redraw(hits: Ints, rows: Ints, draws: int, seed: int) -> Floats:
    """Bootstrapped rates of several samples, (draws, samples); 0 for a sample without rows."""
    rng = np.random.Generator(np.random.PCG64(seed))
    again = rng.binomial(rows, (hits + 0.5) / (rows + 1), size=(draws, *rows.shape))
    return again / np.maximum(rows, 1)


def middle(values: Floats, level: float = LEVEL) -> Interval:
    """The percentile interval of the bootstrap: the range of the middle `level` of the values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def largest_of(spans: Sequence[Interval], strict: Sequence[Interval]) -> Interval:
    """The interval of max_k |D_k|, from intervals of every D_k at level and at 1 - (1 - level)/K.

    The interval of the pair with the largest gap covers that gap, so the upper end needs no
    correction for looking at K pairs. The lower end does (Bonferroni, `strict`).
    """
    low = max(0.0 if s.low <= 0 <= s.high else min(abs(s.low), abs(s.high)) for s in strict)
    return Interval(low, max(max(abs(s.low), abs(s.high)) for s in spans))


def reach(centre: float, variance: float, deviations: float) -> Interval:
    """The interval of `deviations` standard deviations to both sides of the centre."""
    return Interval(
        centre - deviations * math.sqrt(variance), centre + deviations * math.sqrt(variance)
    )


def chebyshev_deviations(level: float = LEVEL) -> float:
    """r / sqrt(Var) with 1 - Var/r^2 = level: 4.47 for 95 %."""
    return math.sqrt(1 / (1 - level))


def _around(a: Moments, b: Moments, deviations: float, fewest: int) -> Interval | None:
    of_a, of_b = a.variance_of_mean, b.variance_of_mean
    if of_a is None or of_b is None or min(a.rows, b.rows) < fewest:
        return None
    # An estimated variance of 0 does not mean that the mean is known exactly.
    return reach(a.mean - b.mean, of_a + of_b, deviations) if of_a + of_b > 0 else None
