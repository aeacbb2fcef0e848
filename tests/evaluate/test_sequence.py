"""A confidence sequence holds at all times together, where a fixed interval does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import beta

from fairsilo.evaluate.exact import clopper_pearson
from fairsilo.evaluate.intervals import Interval
from fairsilo.evaluate.sequence import at_any_time


def test_the_ends_are_where_the_capital_is_twenty() -> None:
    found = at_any_time(30, 50, 0.95)
    for p in (found.low, found.high):
        capital = beta(30.5, 20.5) / beta(0.5, 0.5) / (p**30 * (1 - p) ** 20)
        assert capital == pytest.approx(20, rel=1e-6)
    fixed = clopper_pearson(30, 50, 0.95)
    assert found.low < fixed.low < fixed.high < found.high
    assert (at_any_time(0, 0).low, at_any_time(0, 0).high) == (0, 1)
    assert at_any_time(0, 40).low == 0
    assert at_any_time(40, 40).high == 1


def test_it_holds_however_often_one_looks() -> None:
    """A hundred streams of 400 rows, looked at after every fifth: the interval that holds at one
    time fails much oftener."""
    rng = np.random.default_rng(0)
    missed = {"always": 0, "fixed": 0}
    for _ in range(100):
        hits = np.cumsum(rng.random(400) < 0.7)
        looks = [(int(hits[k]), k + 1) for k in range(4, 400, 10)]
        missed["always"] += any(not _holds(at_any_time(h, n, 0.8)) for h, n in looks)
        missed["fixed"] += any(not _holds(clopper_pearson(h, n, 0.8)) for h, n in looks)
    assert missed["always"] <= 20
    assert missed["fixed"] > 30


def _holds(span: Interval) -> bool:
    return span.low <= 0.7 <= span.high
