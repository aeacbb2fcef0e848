"""A confidence sequence for a rate: valid however often one looks, and whenever one stops.

Whoever doubts that the rate is p starts with a capital of 1 and bets on every row. With wagers
mixed by Jeffreys' prior the capital after h hits in m rows is

    K(p) = B(h + 1/2, m - h + 1/2) / B(1/2, 1/2) / (p^h (1 - p)^(m - h))

whatever the order of the rows. If the rate is p, it ever reaches 1/alpha with probability alpha at
most (Ville), so that the rates at which it has not are an interval that holds at all times
together. It needs the counts so far and nothing else. (Clopper and Pearson's interval holds at one
time that was fixed before.)
"""

import math

from fairsilo.evaluate.intervals import LEVEL, Interval


def at_any_time(hits: int, rows: int, level: float = LEVEL) -> Interval:
    """The rates that the rows so far leave possible."""
    from scipy.optimize import brentq
    from scipy.special import betaln, xlog1py, xlogy

    if not rows:
        return Interval(0.0, 1.0)
    misses = rows - hits
    won = betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5) + math.log(1 - level)

    def above(p: float) -> float:
        """The logarithm of the capital less that at which p is given up."""
        return float(won - xlogy(hits, p) - xlog1py(misses, -p))

    tiny, seen = 1e-12, hits / rows
    low = 0.0 if not hits or above(tiny) < 0 else brentq(above, tiny, seen)
    high = 1.0 if not misses or above(1 - tiny) < 0 else brentq(above, seen, 1 - tiny)
    return Interval(float(low), float(high))
