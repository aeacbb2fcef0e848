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
