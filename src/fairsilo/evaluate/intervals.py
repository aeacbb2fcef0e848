"""How sure one can be of a rate, of a gap between rates, and of a gap between mean losses.

    rate        Wilson's score interval (Wilson 1927)
    rate gap    Newcombe's hybrid score interval, method 10 of Newcombe (1998)
    loss gap    D +- z sqrt(Var), the normal approximation, and
                D +- r with r = sqrt(Var / (1 - level)), Chebyshev's inequality (the paper's bound)

with Var = s_a^2/m_a + s_b^2/m_b (design, section 4). Chebyshev assumes nothing about the shape of
the losses, but Var itself is estimated. All of it needs rows that the model did not train on.
Undefined intervals are None, never NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95
"""The confidence level unless another is asked for."""


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

    rows: int
    mean: float
    std: float

    @property
    def variance_of_mean(self) -> float | None:
        """s^2/m with the unbiased s^2; undefined for a single row."""
        return self.std**2 / (self.rows - 1) if self.rows > 1 else None


def wilson(hits: int, rows: int, level: float = LEVEL) -> Interval | None:
    """Wilson's score interval for a rate; undefined without rows."""
    if rows == 0:
        return None
    z = quantile(level)
    rate, scale = hits / rows, 1 + z**2 / rows
    centre = (rate + z**2 / (2 * rows)) / scale
    half = z * math.sqrt(rate * (1 - rate) / rows + z**2 / (4 * rows**2)) / scale
    # At the ends the two terms are equal; only rounding keeps them apart.
    return Interval(
        0.0 if hits == 0 else max(centre - half, 0.0),
        1.0 if hits == rows else min(centre + half, 1.0),
    )


def newcombe(
    hits_a: int, rows_a: int, hits_b: int, rows_b: int, level: float = LEVEL
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


def normal_gap(a: Moments, b: Moments, level: float = LEVEL) -> Interval | None:
    """Mean a minus mean b, by the normal approximation."""
    return _around(a, b, quantile(level))


def chebyshev_gap(a: Moments, b: Moments, level: float = LEVEL) -> Interval | None:
    """Mean a minus mean b, whatever the distribution: P(|error| < r) >= 1 - Var/r^2 = level."""
    return _around(a, b, math.sqrt(1 / (1 - level)))


def quantile(level: float) -> float:
    """How many standard deviations a two-sided normal interval reaches: 1.96 for 95 %."""
    return NormalDist().inv_cdf((1 + level) / 2)


def _around(a: Moments, b: Moments, deviations: float) -> Interval | None:
    of_a, of_b = a.variance_of_mean, b.variance_of_mean
    if of_a is None or of_b is None:
        return None
    centre, reach = a.mean - b.mean, deviations * math.sqrt(of_a + of_b)
    return Interval(centre - reach, centre + reach)
