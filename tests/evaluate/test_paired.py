"""Changes on the same rows: against hand derivations, and how often the intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fairsilo.evaluate.paired import mean_change, mean_gap_change, rate_change, rate_gap_change


def hits(both: int, only_new: int, only_old: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    new = [True] * (both + only_new) + [False] * (only_old + neither)
    old = [True] * both + [False] * only_new + [True] * only_old + [False] * neither
    return np.array(new), np.array(old)


def test_mcnemars_test_by_hand() -> None:
    found = rate_change(*hits(20, 10, 2, 8))
    assert found is not None
    assert found.value == pytest.approx(8 / 40)
    # Of 12 rows that differ at most 2 fall to one side: (1 + 12 + 66) / 2^12, on either side.
    assert found.p == pytest.approx(2 * 79 / 4096)
    up, down = 11 / 42, 3 / 42
    half = 1.959964 * math.sqrt((up + down - (up - down) ** 2) / 42)
    assert found.interval.low == pytest.approx(up - down - half)
    assert found.interval.high == pytest.approx(up - down + half)


def test_models_that_agree_have_no_change_and_an_interval() -> None:
    found = rate_change(*hits(5, 0, 0, 5))
    assert found is not None
    assert (found.value, found.p) == (0.0, 1.0)
    assert found.interval.low < 0 < found.interval.high


def test_a_gap_changes_by_the_difference_of_its_sides() -> None:
    a, b = hits(10, 6, 1, 13), hits(30, 4, 4, 12)
    found, back = rate_gap_change(a, b), rate_gap_change(a[::-1], b[::-1])
    assert found is not None
    assert back is not None
    gaps = [float(a[k].mean() - b[k].mean()) for k in (0, 1)]
    assert found.value == pytest.approx(gaps[0] - gaps[1])
    assert (back.value, back.p) == pytest.approx((-found.value, found.p))


def test_means_by_hand() -> None:
    found = mean_gap_change(np.array([1.0, 3.0]), np.array([0.0, 0.0, 3.0]))
    assert found is not None
    error = math.sqrt(2 / 2 + 3 / 3)
    assert found.value == pytest.approx(2 - 1)
    freedom = (1 + 1) ** 2 / (1 / 1 + 1 / 2)  # Welch's
    assert found.interval.high == pytest.approx(1 + stats.t.ppf(0.975, freedom) * error)
    wanted = stats.ttest_ind([1.0, 3.0], [0.0, 0.0, 3.0], equal_var=False).pvalue
    assert found.p == pytest.approx(wanted)


@pytest.mark.parametrize("rows", [2, 10])
def test_few_rows_raise_no_false_alarm(rows: int) -> None:
    draws = np.random.default_rng(1).normal(size=(1000, rows))
    alarms = np.mean([found.p < 0.05 for one in draws if (found := mean_change(one))])
    assert 0.03 <= alarms <= 0.07


def test_what_is_undefined_is_none() -> None:
    nothing = np.zeros(0, np.bool_)
    assert rate_change(nothing, nothing) is None
    assert rate_gap_change((nothing, nothing), hits(1, 1, 1, 1)) is None
    assert mean_change(np.array([1.0])) is None
    assert mean_change(np.array([1.0, np.inf])) is None
    assert mean_change(np.full(7, 0.1)) is None
    assert mean_gap_change(np.full(7, 0.1), np.full(5, 0.2)) is None
    for same in (mean_change(np.zeros(7)), mean_gap_change(np.full(7, 0.1), np.full(5, 0.1))):
        assert same is not None
        assert (same.value, same.p) == (0.0, 1.0)


def test_intervals_of_gaps_hold_as_often_as_they_say() -> None:
    """Two models that agree on most rows; the true gap of one is 0.1 above the other's."""
    rng = np.random.default_rng(0)

    def draw(rows: int, up: float, down: float) -> tuple[np.ndarray, np.ndarray]:
        kind = rng.choice(4, size=rows, p=[0.5, up, down, 0.5 - up - down])
        return kind <= 1, (kind == 0) | (kind == 2)

    held = 0
    for _ in range(600):
        found = rate_gap_change(draw(60, 0.15, 0.05), draw(200, 0.04, 0.04))
        assert found is not None
        held += found.interval.low <= 0.1 <= found.interval.high
    assert 0.93 <= held / 600 <= 0.975


def test_a_weighted_change_by_hand() -> None:
    d, w = np.array([1.0, 4.0, -2.0]), np.array([2.0, 1.0, 1.0])
    found = mean_change(d, w)
    assert found is not None
    # Mean (2 + 4 - 2) / 4 = 1; residuals w (d - 1) = 0, 3, -3; 3/2 (9 + 9) / 16.
    assert found.value == pytest.approx(1.0)
    half = stats.t.ppf(0.975, 16 / 6 - 1) * math.sqrt(1.5 * 18 / 16)
    assert found.interval.high == pytest.approx(1 + half)


def test_equal_weights_are_as_none() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=30), rng.normal(size=9)
    plain, weighed = mean_gap_change(a, b), mean_gap_change(a, b, [np.full(30, 3.0), np.ones(9)])
    assert plain is not None
    assert weighed is not None
    assert weighed.p == pytest.approx(plain.p)
    assert weighed.interval.low == pytest.approx(plain.interval.low)


@pytest.mark.parametrize("flips", [(6, 1), (0, 0)])
def test_equal_weights_of_rates_are_as_none(flips: tuple[int, int]) -> None:
    a, b = hits(10, *flips, 13), hits(30, *flips, 12)
    weights = [np.full(len(a[0]), 3.0), np.full(len(b[0]), 0.7)]
    for plain, weighed in (
        (rate_change(*a), rate_change(*a, weights[0])),
        (rate_gap_change(a, b), rate_gap_change(a, b, weights)),
    ):
        assert plain is not None
        assert weighed is not None
        assert (weighed.value, weighed.p) == pytest.approx((plain.value, plain.p))
        told, wanted = weighed.interval, plain.interval
        assert (told.low, told.high) == pytest.approx((wanted.low, wanted.high))


def test_where_no_row_flips_unequal_weights_have_an_interval_by_hand() -> None:
    new, old = hits(2, 0, 0, 2)
    w = np.array([1.0, 2.0, 3.0, 2.0])
    rows = 8**2 / 18
    half = 1.959964 * math.sqrt(2 / (rows + 2) ** 2)
    found, gap = rate_change(new, old, w), rate_gap_change((new, old), (new, old), [w, w])
    assert found is not None
    assert gap is not None
    assert (found.value, found.p, gap.value, gap.p) == (0.0, 1.0, 0.0, 1.0)
    assert found.interval.high == pytest.approx(half)
    assert gap.interval.high == pytest.approx(half * math.sqrt(2))


def test_weighted_rates_by_hand() -> None:
    new, old = hits(1, 2, 1, 1)
    w = np.array([1.0, 2.0, 2.0, 2.0, 1.0])
    found = rate_change(new, old, w)
    assert found is not None
    assert found.value == pytest.approx((4 - 2) / 8)
    # Three flips that weigh alike: 1 and 2, of which at most 1 in (1 + 3) / 2^3 cases.
    assert found.p == 1.0
    more = 14 / 8
    total = 8 + 2 * more
    m = 2 / total
    rows = [(1, 0), (2, 1), (2, 1), (2, -1), (1, 0), (more, 1), (more, -1)]
    error = math.sqrt(sum((one * (d - m)) ** 2 for one, d in rows)) / total
    assert found.interval.high == pytest.approx(m + 1.959964 * error)


def test_one_row_that_outweighs_all_others_says_nothing() -> None:
    d = np.array([0.1, 0.2, 0.3])
    assert mean_change(d, np.array([1.0, 1e6, 1.0])) is None


def test_weighted_intervals_hold_as_often_as_they_say() -> None:
    """Rows are drawn by 1 / weight: the weighted change is that of the population."""
    rng, held = np.random.default_rng(4), 0
    for _ in range(400):
        rare = rng.random(160) < 0.2  # half of the population, a fifth of the sample
        w = np.where(rare, 4.0, 1.0)
        old = rng.random(160) < 0.5
        flips = rng.random(160) < np.where(rare, 0.2, 0.04)
        found = rate_change(old | flips, old, w)
        assert found is not None
        held += found.interval.low <= 0.5 * (0.2 * 0.5 + 0.04 * 0.5) <= found.interval.high
    assert 0.92 <= held / 400 <= 0.98
