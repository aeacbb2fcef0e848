"""A bound of a mean that holds for any number of rows, from sums: betting on a fixed grid.

A loss above CLIP counts as CLIP, which was chosen before any row was seen; x = loss / CLIP is in
[0, 1]. Whoever doubts that the mean is m (or larger) starts with a capital of 1 and bets a share
lambda of it on every row being smaller. If the mean is m or larger, the capital

    K(m) = sum_lambda p_lambda prod_j (1 + lambda (m - x_j)),      sum_lambda p_lambda = 1

is 1 on average at most, so that it reaches 2/alpha with probability alpha/2 at most (Markov), for
any distribution of the losses (Waudby-Smith and Ramdas 2024). The smallest such m bounds the mean
from above; bets on the rows being larger bound it from below.

    log prod_j (1 + lambda (m - x_j)) = sum_j log(1 + lambda (m - x_j))

is a sum over rows, and so over silos, for each wager lambda and mean m of a fixed grid. In m it is
concave: between two means of the grid it is at least the chord, which is what is taken.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.evaluate.intervals import LEVEL, Interval
from fairsilo.fairness.constraint import Dgeo

CLIP = 5.0
"""Losses above it count as it: the model gave the true class less than 0.7 %."""
MEANS: Floats = np.array([0.0, *np.geomspace(0.002, 1.0, 27)], np.float64)
"""The means that are doubted, as shares of CLIP."""
WAGERS: Floats = np.array([4.0 / 2**k for k in range(12)], np.float64)
"""The shares of the capital: large ones pay off with few rows, small ones with many."""
SPREAD = 0.2
"""A guess at the deviation of x, by which most of the capital goes to the wagers that suit the
number of rows. A wrong one widens the bound and does not break it."""
BINS = 4096
"""Clipped losses are rounded to so many steps, each way to the side that weakens the bound."""
FINE = 2001
"""Means between those of the grid at which the bounds are looked for."""


def cells_of(pairs: Sequence[Dgeo]) -> list[tuple[int, int]]:
    """The cells (group, class) that the pairs compare, in the order of their sums."""
    return sorted({(group, pair.c) for pair in pairs for group in (pair.a, pair.b)})


def shape_of(pairs: Sequence[Dgeo]) -> tuple[int, ...]:
    """The shape of these sums."""
    return len(cells_of(pairs)), 2, len(WAGERS), len(MEANS)


def wagers_on(losses: Floats, y: Ints, s: Ints, pairs: Sequence[Dgeo], min_cell: int = 0) -> Floats:
    """The sums over the rows of every cell that the pairs compare; small ones are left out."""
    cells = cells_of(pairs)
    place = np.full(len(y), -1)
    for k, (group, c) in enumerate(cells):
        rows = (s == group) & (y == c)
        if np.count_nonzero(rows) >= min_cell:
            place[rows] = k
    return wagers_of(losses[place >= 0], place[place >= 0], len(cells))


def wagers_of(losses: Floats, cell: Ints, cells: int) -> Floats:
    """The sums over the rows of every cell, (cells, 2, wagers, means): smaller, then larger."""
    x = BINS * np.clip(np.nan_to_num(losses, nan=np.inf) / CLIP, 0, 1)
    found = np.empty((cells, 2, len(WAGERS), len(MEANS)))
    for side, steps in enumerate((np.ceil(x), np.floor(x))):
        place = cell * (BINS + 1) + steps.astype(np.int64)
        counts = np.bincount(place, minlength=cells * (BINS + 1)).reshape(cells, BINS + 1)
        found[:, side] = np.tensordot(counts, _logs(side), axes=(1, 2))
    return found


@cache
def _logs(side: int) -> Floats:
    """log(1 + lambda (m - x)), or of x - m, for every step x of a loss; 0 where it may be lost."""
    away = MEANS[:, None] - np.linspace(0, 1, BINS + 1)
    gain = WAGERS[:, None, None] * (away if side == 0 else -away)
    logs: Floats = np.where(_allowed(side)[:, :, None], np.log1p(np.maximum(gain, -0.99)), 0.0)
    return logs


def mean_between(sums: Floats, rows: int, level: float = LEVEL) -> Interval:
    """The mean of the clipped losses; each end fails with probability (1 - level)/2 at most.

    `sums` is (2, wagers, means), of the rows of one cell or of several together.
    """
    needed = math.log(2 / (1 - level))
    best = math.sqrt(2 * needed / max(rows, 1)) / SPREAD
    share = 2.0 ** -(np.log2(WAGERS / best) ** 2)
    share /= share.sum()
    at = np.linspace(0, 1, FINE)
    above, below = (at[_capital(sums[side], side, share, at) >= needed] for side in (0, 1))
    return Interval(CLIP * float(below.max(initial=0.0)), CLIP * float(above.min(initial=1.0)))


def _capital(logs: Floats, side: int, share: Floats, at: Floats) -> Floats:
    """The logarithm of the capital when each mean is doubted, by chords; (means,)."""
    each = np.full((len(WAGERS), len(at)), -np.inf)
    for w, may in enumerate(_allowed(side)):
        if may.any():
            each[w] = np.interp(at, MEANS[may], logs[w, may], left=-np.inf, right=-np.inf)
    top = each.max(axis=0)
    capital: Floats = top + np.log(share @ np.exp(each - top))
    return capital


def _allowed(side: int) -> Mask:
    """Which wagers may be made at which means, so that no row can lose more than the capital."""
    worst = 1 - MEANS if side == 0 else MEANS
    allowed: Mask = WAGERS[:, None] * worst <= 0.99
    return allowed
