"""Statements about rates that hold for any number of rows: no approximation, no estimated variance.

    one rate          Clopper and Pearson (1934)
    |gap| <= limit    an exact unconditional test: of H0 "rate a - rate b >= limit", all outcomes at
                      least as far below it as the one seen have, under the least favourable rates,
                      a probability of at most p

The test needs sums only: hits and rows of the two sides. Outcomes are ordered by the studentised
difference; the region is made monotone in both counts, so that its probability is largest where
the gap is the limit itself, and there the other rate is searched for. Of that rate only an interval
that holds with probability 1 - RARE is searched (Berger and Boos 1994), and RARE is added to p.
"""

import math
from statistics import NormalDist

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.intervals import LEVEL, Interval

RARE = 1e-4
"""The chance that the rate is outside the interval that is searched."""
GRID = 65
"""So many rates are tried: the probability is smooth on a much coarser scale."""


def clopper_pearson(hits: float, rows: int, level: float = LEVEL) -> Interval:
    """Both ends hold together with probability `level` or more; without rows, all rates."""
    # Not scipy.stats, which takes longer to load than most trainings.
    from scipy.special import betaincinv

    if not rows:
        return Interval(0.0, 1.0)
    tail = (1 - level) / 2
    low = betaincinv(hits, rows - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, rows - hits, 1 - tail) if hits < rows else 1.0
    return Interval(float(low), float(high))


def gap_above(hits: tuple[int, int], rows: tuple[int, int], limit: float) -> float:
    """The p-value of H0 "|rate a - rate b| >= limit": small where the gap is surely smaller.

    Both directions must be refuted, and each by itself at the level, so the larger p counts.
    """
    if not all(rows):
        return 1.0
    (a, b), (m, n) = hits, rows
    return max(_above(a, m, b, n, limit), _above(b, n, a, m, limit))


def rows_needed(rate: float, limit: float, confidence: float) -> int:
    """Rows of each group with which a model of equal rates passes the test as often as not."""
    normal = NormalDist()
    deviations = normal.inv_cdf(confidence) + normal.inv_cdf(0.75)
    spread = 2 * rate * (1 - rate)
    return math.ceil(spread * (deviations / limit) ** 2) if limit else 0


def _above(a: int, m: int, b: int, n: int, limit: float) -> float:
    """The p-value of H0 "rate a - rate b >= limit", a of m and b of n rows being hits."""
    seen = float(_studentised(np.array([a]), m, np.array([b]), n, limit)[0])
    known = clopper_pearson(b, n, 1 - RARE)
    # Where rate b is above 1 - limit, no rate a is as much larger.
    rates = np.linspace(min(known.low, 1 - limit), min(known.high, 1 - limit), GRID)
    wide = 9 * math.sqrt(n) / 2 + 9
    counts = np.arange(
        max(0, math.floor(rates[0] * n - wide)), min(n, math.ceil(rates[-1] * n + wide)) + 1
    )
    most = np.maximum.accumulate(_most(counts, m, n, limit, seen))
    each = rates[:, None]
    chance = _chance(counts, n, each) * _chance_of_most(most, m, np.minimum(each + limit, 1))
    return min(1.0, float(chance.sum(axis=1).max()) + RARE)


def _chance(hits: Ints, rows: int, rate: Floats) -> Floats:
    """Of so many hits, binomial."""
    from scipy.special import gammaln, xlog1py, xlogy

    ways = gammaln(rows + 1) - gammaln(hits + 1) - gammaln(rows - hits + 1)
    return np.asarray(np.exp(ways + xlogy(hits, rate) + xlog1py(rows - hits, -rate)))


def _chance_of_most(hits: Ints, rows: int, rate: Floats) -> Floats:
    """Of at most so many hits, binomial."""
    from scipy.special import bdtr

    return np.where(hits < 0, 0.0, bdtr(np.maximum(hits, 0), rows, rate))


def _most(counts: Ints, m: int, n: int, limit: float, seen: float) -> Ints:
    """For each count of b, the largest count of a that is as far below H0; -1: none is."""
    low, high = np.full(len(counts), -1), np.full(len(counts), m)
    while (low < high).any():
        middle = (low + high + 1) // 2
        inside = _studentised(middle, m, counts, n, limit) <= seen + 1e-12
        low, high = np.where(inside, middle, low), np.where(inside, high, middle - 1)
    return low


def _studentised(a: Ints, m: int, b: Ints, n: int, limit: float) -> Floats:
    """(rate a - rate b - limit) over its deviation, with a hit and a miss added to each side."""
    p, q = (a + 1) / (m + 2), (b + 1) / (n + 2)
    deviation = np.sqrt(p * (1 - p) / (m + 2) + q * (1 - q) / (n + 2))
    studentised: Floats = (a / m - b / n - limit) / deviation
    return studentised
