"""Intervals against the worked examples of Newcombe's two papers of 1998, SciPy, and coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairsilo.evaluate.intervals import (
    FEWEST,
    Interval,
    Moments,
    chebyshev_gap,
    largest_of,
    middle,
    newcombe,
    normal_gap,
    quantile,
    redraw,
    wilson,
)


@pytest.mark.parametrize(
    ("hits", "rows", "low", "high"),
    [
        # Newcombe, Two-sided confidence intervals for the single proportion, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_newcombes_worked_example(hits: int, rows: int, low: float, high: float) -> None:
    interval = wilson(hits, rows)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        # Newcombe, Interval estimation for the difference between independent proportions,
        # table II, method 10, examples (a) to (h).
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_is_its_authors_worked_example(
    a: tuple[int, int], b: tuple[int, int], low: float, high: float
) -> None:
    interval = newcombe(*a, *b)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.8, 0.9, 0.95, 0.999]))
def test_wilson_is_scipys(rows: int, share: float, level: float) -> None:
    hits = round(share * rows)
    theirs = stats.binomtest(hits, rows).proportion_ci(level, method="wilson")
    ours = wilson(hits, rows, level)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@given(st.integers(1, 400), st.integers(1, 400), st.floats(0, 1), st.floats(0, 1))
def test_newcombe_is_antisymmetric_and_stays_in_range(
    rows_a: int, rows_b: int, share_a: float, share_b: float
) -> None:
    a, b = (round(share_a * rows_a), rows_a), (round(share_b * rows_b), rows_b)
    forth, back = newcombe(*a, *b), newcombe(*b, *a)
    assert forth is not None
    assert back is not None
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert -1 <= forth.low <= a[0] / a[1] - b[0] / b[1] <= forth.high <= 1


def test_normal_gap_is_the_textbooks() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.exponential(1.0, 200), rng.exponential(1.2, 300)
    error = math.sqrt(a.var(ddof=1) / 200 + b.var(ddof=1) / 300)
    low, high = stats.norm.interval(0.95, loc=a.mean() - b.mean(), scale=error)
    ours = normal_gap(_moments(a), _moments(b))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((low, high))


def test_chebyshev_by_hand() -> None:
    # Var = 3^2/9 + 4^2/16 = 2 with m - 1 = 9 and 16, r = sqrt(2 / 0.05) = sqrt(40).
    interval = chebyshev_gap(Moments(10, 1.0, 3.0), Moments(17, 0.5, 4.0), fewest=2)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(
        (0.5 - math.sqrt(40), 0.5 + math.sqrt(40))
    )


def test_both_gaps_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    draws, truth = 2000, 1.0 - 0.7
    covered = np.zeros(2)
    for _ in range(draws):
        a = _moments(rng.exponential(1.0, 150))
        b = _moments(rng.exponential(0.7, 150))
        for k, gap in enumerate((normal_gap(a, b), chebyshev_gap(a, b))):
            assert gap is not None
            covered[k] += gap.low <= truth <= gap.high
    normal, chebyshev = covered / draws
    assert abs(normal - 0.95) < 0.02
    assert chebyshev > 0.99


def test_redrawing_counts_is_redrawing_rows() -> None:
    # Row by row, with half a hit and half a miss (two rows of each kind weigh as much as one).
    hits, rows, draws = 26, 30, 40_000
    rng = np.random.default_rng(0)
    weights = np.array([*[2] * hits, *[2] * (rows - hits), 1, 1]) / (2 * rows + 2)
    values = np.array([*[1] * hits, *[0] * (rows - hits), 1, 0])
    slow = rng.choice(values, size=(draws, rows), p=weights).mean(axis=1)
    fast = redraw(np.array([hits]), np.array([rows]), draws, seed=1)[:, 0]
    assert fast.mean() == pytest.approx(slow.mean(), abs=1e-3)
    assert fast.std() == pytest.approx(slow.std(), abs=1e-3)
    assert middle(fast) == middle(slow)


def test_half_a_miss_keeps_the_bootstrap_from_being_too_sure() -> None:
    """Exact coverage at 30 rows, by summing over all counts, with and without the half."""
    rows, counts = 30, np.arange(31)
    held = {0.5: [], 0.0: []}  # type: dict[float, list[float]]
    for half, found in held.items():
        ends = stats.binom.ppf([[0.025], [0.975]], rows, (counts + half) / (rows + 2 * half))
        for truth in np.linspace(0.5, 0.97, 200):
            inside = (ends[0] / rows <= truth) & (truth <= ends[1] / rows)
            found.append(float(stats.binom.pmf(counts, rows, truth)[inside].sum()))
    assert 0.93 <= np.mean(held[0.5]) <= 0.97
    assert min(held[0.5]) > 0.85
    assert np.mean(held[0.0]) < 0.92
    assert min(held[0.0]) < 0.7


def test_the_largest_gap_lies_where_its_own_pair_says() -> None:
    spans = [Interval(-0.1, 0.2), Interval(-0.5, -0.3)]
    strict = [Interval(-0.2, 0.3), Interval(-0.55, -0.25)]
    assert largest_of(spans, strict) == Interval(0.25, 0.5)
    assert largest_of([Interval(-0.1, 0.2)], [Interval(-0.1, 0.2)]) == Interval(0.0, 0.2)


def test_undefined_is_none() -> None:
    one, many = Moments(1, 0.5, 0.0), Moments(10, 0.5, 0.1)
    assert wilson(0, 0) is None
    assert newcombe(0, 0, 1, 2) is None
    assert newcombe(1, 2, 0, 0) is None
    assert normal_gap(one, many, fewest=1) is None
    assert chebyshev_gap(many, one, fewest=1) is None


def test_an_estimated_variance_says_nothing_of_few_rows() -> None:
    few, enough = Moments(FEWEST - 1, 0.5, 0.1), Moments(FEWEST, 0.5, 0.1)
    for gap in (normal_gap, chebyshev_gap):
        assert gap(few, enough) is None
        assert gap(enough, few) is None
        assert gap(enough, enough) is not None


def test_an_estimated_variance_of_zero_says_nothing() -> None:
    alike = Moments(1000, 0.2, 0.0)
    assert normal_gap(alike, alike) is None
    assert chebyshev_gap(alike, alike) is None
    assert normal_gap(alike, Moments(1000, 0.2, 0.1)) is not None


def test_within_and_beyond_are_not_each_others_negation() -> None:
    assert Interval(-0.05, 0.1).within(0.1)
    assert not Interval(-0.2, 0.1).within(0.1)
    assert Interval(0.11, 0.2).beyond(0.1)
    assert Interval(-0.3, -0.11).beyond(0.1)
    straddling = Interval(0.05, 0.15)
    assert not straddling.within(0.1)
    assert not straddling.beyond(0.1)


def test_quantile() -> None:
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)


def _moments(values: np.ndarray) -> Moments:
    return Moments(len(values), float(values.mean()), float(values.std()))
