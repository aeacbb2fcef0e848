"""Exact statements about rates, by enumerating every outcome that rows can have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from fairsilo.evaluate.exact import clopper_pearson, gap_above, rows_needed


@pytest.mark.parametrize(("hits", "rows"), [(0, 9), (3, 9), (9, 9), (40, 200)])
def test_clopper_pearson_by_its_definition(hits: int, rows: int) -> None:
    """Below the low end, so many hits or more are rare; above the high end, so few or fewer."""
    found = clopper_pearson(hits, rows, 0.9)
    if hits:
        assert binom.sf(hits - 1, rows, found.low) == pytest.approx(0.05)
    else:
        assert found.low == 0
    if hits < rows:
        assert binom.cdf(hits, rows, found.high) == pytest.approx(0.05)
    else:
        assert found.high == 1


def test_without_rows_every_rate_is_possible() -> None:
    found = clopper_pearson(0, 0)
    assert (found.low, found.high) == (0, 1)


@pytest.mark.parametrize(("m", "n", "limit"), [(12, 15, 0.3), (20, 8, 0.4)])
def test_the_test_errs_no_oftener_than_it_says(m: int, n: int, limit: float) -> None:
    """Over all outcomes: wherever the gap is the limit or more, p <= alpha happens rarely."""
    p = np.array([[gap_above((a, b), (m, n), limit) for b in range(n + 1)] for a in range(m + 1)])
    assert p.min() < 0.2
    for alpha in (0.05, 0.1, 0.3):
        passes = p <= alpha
        for rate, gap in itertools.product(np.linspace(0, 1, 21), (limit, limit + 0.1, -limit)):
            other = rate + gap
            if 0 <= other <= 1:
                chance = (
                    binom.pmf(range(m + 1), m, other) @ passes @ binom.pmf(range(n + 1), n, rate)
                )
                assert chance <= alpha + 1e-9


def test_more_rows_say_more() -> None:
    p = [gap_above((6 * k, 6 * k), (10 * k, 10 * k), 0.1) for k in (1, 10, 100, 10_000)]
    assert p == sorted(p, reverse=True)
    assert p[-1] < 1e-3
    assert gap_above((60_000, 70_000), (100_000, 100_000), 0.1) > 0.4
    assert gap_above((0, 0), (0, 5), 0.1) == 1


def test_with_the_rows_that_are_needed_equal_rates_pass_as_often_as_not() -> None:
    rate, limit, confidence = 0.75, 0.1, 0.9
    rows = rows_needed(rate, limit, confidence)
    drawn = np.random.default_rng(0).binomial(rows, rate, size=(60, 2))
    passed = [gap_above((int(a), int(b)), (rows, rows), limit) <= 0.1 for a, b in drawn]
    assert 0.3 < np.mean(passed) < 0.7
    assert rows_needed(0.75, 0.02, 0.9) == pytest.approx(3_600, rel=0.02)
