"""Two models on the same rows: by how much a rate, a mean loss or a gap differs, and how surely.

    rate       b rows only the new model hits, c only the old: McNemar's exact test, the
               interval of Bonett and Price (2012) with (b+1)/(n+2) and (c+1)/(n+2)
    rate gap   the rate's change on side a minus that on side b, variances as above, normal
    mean loss  the mean of the rows' own differences, Student's t
    loss gap   the mean's change on side a minus that on side b, t with Welch's degrees of freedom

Rows that both models treat alike cancel, so the same rows say more of a difference than two
samples would. Undefined changes are None, never NaN; so is that of a mean where it is the same, and
not zero, in all rows: they say nothing of how much rows differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Mask
from fairsilo.evaluate.intervals import LEVEL, Interval, quantile, reach


@dataclass(frozen=True)
class Change:
    """New minus old, its confidence interval, and the chance of so much where there is none."""

    value: float
    interval: Interval
    p: float


SAME = 1e-12
"""The standard error of differences that are the same, as a share of them: they are rounded."""


def rate_change(new: Mask, old: Mask, level: float = LEVEL) -> Change | None:
    """Of the share of rows that are hit."""
    from scipy.special import bdtr

    if not len(new):
        return None
    only_new, only_old = _apart(new, old)
    centre, variance = _adjusted(new, old)
    either = only_new + only_old
    p = min(1.0, 2 * float(bdtr(min(only_new, only_old), either, 0.5))) if either else 1.0
    value = (only_new - only_old) / len(new)
    return Change(value, reach(centre, variance, quantile(level)), p)


def rate_gap_change(
    a: tuple[Mask, Mask], b: tuple[Mask, Mask], level: float = LEVEL
) -> Change | None:
    """Of rate a minus rate b; each side has the hits of the new model and of the old one."""
    if not (len(a[0]) and len(b[0])):
        return None
    (on_a, var_a), (on_b, var_b) = _adjusted(*a), _adjusted(*b)
    value = float(np.mean(a[0]) - np.mean(a[1])) - float(np.mean(b[0]) - np.mean(b[1]))
    return _spanned(value, on_a - on_b, var_a + var_b, np.inf, level)


def mean_change(difference: Floats, level: float = LEVEL) -> Change | None:
    """Of a mean; `difference`: of every row, new minus old."""
    return mean_gap_change(difference, None, level)


def mean_gap_change(a: Floats, b: Floats | None, level: float = LEVEL) -> Change | None:
    """Of mean a minus mean b, from the differences of their rows; without b, of mean a."""
    sides = [a] if b is None else [a, b]
    if any(len(one) < 2 or not np.isfinite(one).all() for one in sides):
        return None
    means = [float(one.mean()) for one in sides]
    errors = [float(one.var(ddof=1)) / len(one) for one in sides]
    variance, value = sum(errors), means[0] - sum(means[1:])
    rounded = SAME * max(map(abs, means))
    if variance <= rounded**2:
        return None if abs(value) > rounded else Change(0.0, Interval(0.0, 0.0), 1.0)
    spread = sum(one**2 / (len(side) - 1) for one, side in zip(errors, sides, strict=True))
    return _spanned(value, value, variance, variance**2 / spread, level)


def _apart(new: Mask, old: Mask) -> tuple[int, int]:
    """Rows that only one of the two hits."""
    return int(np.sum(new & ~old)), int(np.sum(old & ~new))


def _adjusted(new: Mask, old: Mask) -> tuple[float, float]:
    """The change of a rate and its variance, with one row more on each side (Bonett, Price)."""
    rows = len(new) + 2
    up, down = ((count + 1) / rows for count in _apart(new, old))
    return up - down, (up + down - (up - down) ** 2) / rows


def _spanned(value: float, centre: float, variance: float, freedom: float, level: float) -> Change:
    """By Student's t; with infinite degrees of freedom it is normal."""
    from scipy.special import stdtr, stdtrit

    span = reach(centre, variance, float(stdtrit(freedom, (1 + level) / 2)))
    return Change(value, span, 2 * float(stdtr(freedom, -abs(centre) / np.sqrt(variance))))
