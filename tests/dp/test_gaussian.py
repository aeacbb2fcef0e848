"""The discrete Gaussian against its exact probabilities."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, norm

from fairsilo.arrays import Floats, Ints
from fairsilo.dp.gaussian import LARGEST, PLACES, Source, _below, _edges, _step, discrete_gaussian


def seeded(seed: int) -> Source:
    return np.random.default_rng(seed).bytes


def probabilities(s: int, most: int) -> Floats:
    """Of -most, ..., most by the definition; beyond is next to nothing."""
    weights = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * s * s))
    whole: Floats = weights / np.exp(-(np.arange(-40 * s, 40 * s + 1) ** 2) / (2 * s * s)).sum()
    return whole


def against(draws: Ints, s: int, most: int) -> float:
    """The p-value of the draws, with all beyond `most` in one more cell."""
    exact = probabilities(s, most)
    inside = np.abs(draws) <= most
    found = np.bincount((draws[inside] + most).astype(int), minlength=2 * most + 1)
    expected = np.append(exact, 1 - exact.sum()) * len(draws)
    return float(chisquare(np.append(found, (~inside).sum()), expected).pvalue)


@pytest.mark.parametrize("s", [1, 2, 3, 7])
def test_every_number_has_its_probability(s: int) -> None:
    """To three standard deviations one by one, the rest together; 300,000 draws."""
    draws = discrete_gaussian(300_000, s, seeded(s))
    assert against(draws, s, 3 * s) > 1e-3


def test_a_wrong_distribution_is_noticed() -> None:
    """What the test above would say of rounded normal numbers, and of too small an s."""
    rounded = np.rint(np.random.default_rng(0).normal(size=300_000)).astype(np.int64)
    assert against(rounded, 1, 3) < 1e-9
    assert against(discrete_gaussian(300_000, 49, seeded(1)), 50, 150) < 1e-9


def test_all_decisions_by_digits_are_the_same_draws() -> None:
    """With float64 never believed, every acceptance takes the slow and exact way."""
    draws = discrete_gaussian(4000, 5, seeded(3), unsure=2.0)
    assert against(draws, 5, 15) > 1e-3
    # Its further words come from the same source, so that one batch only is comparable.
    fast, slow = (discrete_gaussian(8, 2**24, seeded(4), unsure=u) for u in (2.0**-40, 2.0))
    np.testing.assert_array_equal(fast, slow)


def test_at_the_size_of_the_grid_it_is_normal_and_its_tail_is_there() -> None:
    s, count = 2**24 + 12_345, 1_000_000
    draws = discrete_gaussian(count, s, seeded(5)) / s
    assert kstest(draws, norm.cdf).pvalue > 1e-3
    for edge in (2.0, 3.0, 4.0):
        beyond = int((np.abs(draws) > edge).sum())
        expected = 2 * norm.sf(edge) * count
        assert abs(beyond - expected) < 4 * math.sqrt(expected)
    # Consecutive draws share no random bits: neither signs nor sizes go together.
    first, second = draws.reshape(2, -1)
    assert abs((first * second).mean()) < 4 / math.sqrt(count / 2)
    assert abs((first**2 * second**2).mean() - 1) < 4 * math.sqrt(8 / (count / 2))


def root_of_e(n: int, bits: int = 900) -> int:
    """exp(-1/n) times 2^bits, by its series."""
    term = total = 1 << bits
    for i in range(1, 200):
        term = -term // (n * i)
        total += term
    return total


def test_the_table_has_as_many_digits_as_are_asked_for() -> None:
    half, weights = root_of_e(2), [1 << 900]
    for k in range(1, PLACES):
        weights.append(weights[-1])
        for _ in range(k * k - (k - 1) ** 2):
            weights[-1] = weights[-1] * half >> 900
    for words in (1, 2, 4):
        exact = [(sum(weights[: k + 1]) << 64 * words) // sum(weights) for k in range(19)]
        assert list(_edges(words)) == exact


def words(*values: int) -> Source:
    """A source that gives these words, one after the other."""
    rest = list(values)
    return lambda count: rest.pop(0).to_bytes(count, "little")


def test_a_tie_is_decided_by_the_bits_that_follow() -> None:
    edge = _edges(2)[3]
    top, low = divmod(edge, 2**64)
    assert _step(top, words(low - 1)) == 3
    assert _step(top, words(low + 1)) == 4
    # Still the same: a third word decides.
    assert _step(top, words(low, 0)) == 3
    assert _step(top, words(low, 2**64 - 1)) == 4

    whole = root_of_e(3) >> 708
    first, second, third = whole >> 128, (whole >> 64) % 2**64, whole % 2**64
    one, three = Decimal(1), Decimal(3)
    assert _below(first, one, three, words(second - 9))
    assert not _below(first, one, three, words(second + 9))
    assert _below(first, one, three, words(second, third - 9))
    assert not _below(first, one, three, words(second, third + 9))


def test_the_largest_is_within_64_bits_and_more_is_refused() -> None:
    assert (2 * PLACES + 1) * LARGEST**2 < 2**63
    draws = discrete_gaussian(50_000, LARGEST, seeded(6)) / LARGEST
    assert kstest(draws, norm.cdf).pvalue > 1e-3
    for wrong in (0, LARGEST + 1):
        with pytest.raises(ValueError, match="not between 1"):
            discrete_gaussian(1, wrong)
