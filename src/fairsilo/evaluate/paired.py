"""Two models on the same rows: by how much a rate, a mean loss or a gap differs, and how surely.

    rate       b rows only the new model hits, c only the old: McNemar's exact test, the
               interval of Bonett and Price (2012) with (b+1)/(n+2) and (c+1)/(n+2)
    rate gap   the rate's change on side a minus that on side b, variances as above, normal
    mean loss  the mean of the rows' own differences, Student's t
    loss gap   the mean's change on side a minus that on side b, t with Welch's degrees of freedom
    weights    the variance of a weighted mean m is n/(n-1) sum (w (d - m))^2 / (sum w)^2, robust
               to what weights stand for, and its degrees of freedom are (sum w)^2 / sum w^2 - 1.
               A rate gets two rows more, d = 1 and d = -1, that weigh sum w^2 / sum w: one each of
               (sum w)^2 / sum w^2 rows. As many rows of flips are counted for McNemar's test, by
               their weights alone. Equal weights are as none.

Rows that both models treat alike cancel, so the same rows say more of a difference than two
samples would. Undefined changes are None, never NaN; so is that of a mean where it is the same, and
not zero, in all rows: they say nothing of how much rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence
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


LEAST = 1 - 1e-9
"""The degrees of freedom, those of two rows but for rounding, below which nothing is said."""


def rate_change(
    new: Mask, old: Mask, weight: Floats | None = None, level: float = LEVEL
) -> Change | None:
    """Of the share of rows that are hit."""
    if not len(new):
        return None
    value, centre, variance = _adjusted(new, old, weight)
    return Change(value, reach(centre, variance, quantile(level)), _mcnemar(new, old, weight))


def rate_gap_change(
    a: tuple[Mask, Mask],
    b: tuple[Mask, Mask],
    weights: Sequence[Floats] | None = None,
    level: float = LEVEL,
) -> Change | None:
    """Of rate a minus rate b; each side has the hits of the new model and of the old one."""
    if not (len(a[0]) and len(b[0])):
        return None
    on_a, on_b = weights or (None, None)
    (value_a, centre_a, var_a), (value_b, centre_b, var_b) = (
        _adjusted(*a, on_a),
        _adjusted(*b, on_b),
    )
    return _spanned(value_a - value_b, centre_a - centre_b, var_a + var_b, np.inf, level)


def mean_change(
    difference: Floats, weight: Floats | None = None, level: float = LEVEL
) -> Change | None:
    """Of a mean; `difference`: of every row, new minus old."""
    return mean_gap_change(difference, None, None if weight is None else [weight], level)


def mean_gap_change(
    a: Floats,
    b: Floats | None,
    weights: Sequence[Floats] | None = None,
    level: float = LEVEL,
) -> Change | None:
    """Of mean a minus mean b, from the differences of their rows; without b, of mean a."""
    sides = [a] if b is None else [a, b]
    if any(len(one) < 2 or not np.isfinite(one).all() for one in sides):
        return None
    each = [one / one.sum() for one in weights or map(np.ones_like, sides)]
    freedoms = [1 / float(w @ w) - 1 for w in each]
    if min(freedoms) < LEAST:
        return None
    means = [float(w @ one) for w, one in zip(each, sides, strict=True)]
    errors = [
        len(w) / (len(w) - 1) * float(np.sum((w * (one - m)) ** 2))
        for w, one, m in zip(each, sides, means, strict=True)
    ]
    variance, value = sum(errors), means[0] - sum(means[1:])
    rounded = SAME * max(map(abs, means))
    if variance <= rounded**2:
        return None if abs(value) > rounded else Change(0.0, Interval(0.0, 0.0), 1.0)
    spread = sum(one**2 / freedom for one, freedom in zip(errors, freedoms, strict=True))
    return _spanned(value, value, variance, variance**2 / spread, level)


def _adjusted(new: Mask, old: Mask, weight: Floats | None) -> tuple[float, float, float]:
    """The change of a rate; and with one row more on each side (Bonett, Price), its variance."""
    w = np.ones(len(new)) if weight is None else weight
    d = new.astype(np.float64) - old
    more = float(w @ w / w.sum())
    wider = np.append(w, [more, more])
    centre = float(w @ d / wider.sum())
    apart = wider * (np.append(d, [1.0, -1.0]) - centre)
    return float(w @ d / w.sum()), centre, float(apart @ apart / wider.sum() ** 2)


def _mcnemar(new: Mask, old: Mask, weight: Floats | None) -> float:
    """The chance of flips that are so uneven, if either way is as likely."""
    from scipy.special import betainc

    w = np.ones(len(new)) if weight is None else weight
    up, down = w[new & ~old], w[old & ~new]
    both = np.append(up, down)
    if not len(both):
        return 1.0
    flips = both.sum() ** 2 / (both @ both)
    fewer = flips * min(up.sum(), down.sum()) / both.sum()
    # The binomial distribution function at one half, also between whole numbers.
    return min(1.0, 2 * float(betainc(flips - fewer, fewer + 1, 0.5)))


def _spanned(value: float, centre: float, variance: float, freedom: float, level: float) -> Change:
    """By Student's t; with infinite degrees of freedom it is normal."""
    from scipy.special import stdtr, stdtrit

    span = reach(centre, variance, float(stdtrit(freedom, (1 + level) / 2)))
    return Change(value, span, 2 * float(stdtr(freedom, -abs(centre) / np.sqrt(variance))))
