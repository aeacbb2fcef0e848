"""The noise: its variance, its random source and its grid."""

import math
import os

import numpy as np
import pytest
from scipy.stats import kstest, norm

from fairsilo.arrays import Floats
from fairsilo.dp import Budget, Ledger, Mechanism, Message, smallest_sum
from fairsilo.dp.noise import Source, blur, grid, normal
from fairsilo.errors import FairSiloError
from fairsilo.secagg import default_threshold


def seeded(seed: int) -> Source:
    return np.random.default_rng(seed).bytes


def mechanism(silos: int, smallest: int, seed: int = 0) -> Mechanism:
    return Mechanism(Ledger(Budget(100.0, 1e-5)), silos, smallest, seeded(seed))


def test_noise_is_normal() -> None:
    draws = normal(50_001, seeded(1))
    assert len(draws) == 50_001
    assert kstest(draws, norm.cdf).pvalue > 0.01


def test_the_operating_system_is_asked() -> None:
    assert Mechanism(Ledger(Budget(1.0, 1e-5)), 3, 3).source is os.urandom
    assert not np.array_equal(normal(8), normal(8))


def released(silos: int, smallest: int, messages: int, seed: int) -> Floats:
    """Noise in 20,000 sums of zeros, in units of multiplier times sensitivity."""
    zeros = [Message("sums", np.zeros(20_000), 2.0, 3.0)] * messages
    return mechanism(silos, smallest, seed).release(zeros) / 6.0


@pytest.mark.parametrize(
    ("silos", "smallest", "messages", "variance"),
    [(50, 34, 50, 50 / 34), (50, 34, 1, 50 / 34), (3, 3, 3, 1.0), (10, 1, 10, 10.0)],
)
def test_variance_is_as_promised(silos: int, smallest: int, messages: int, variance: float) -> None:
    """Four standard errors of a variance from 20,000 draws are 4 percent."""
    noise = released(silos, smallest, messages, seed=silos + messages)
    assert noise.var() == pytest.approx(variance, rel=0.04)
    assert abs(noise.mean()) < 4 * math.sqrt(variance / len(noise))


def test_any_sum_that_can_be_opened_has_all_of_the_noise() -> None:
    """16 of 50 silos drop out: the remaining 34 shares have the planned variance."""
    share = 1 / math.sqrt(34)
    step = grid(share)
    left = [blur(np.zeros(20_000), share, step, seeded(i)) for i in range(34)]
    assert np.var(np.sum(left, axis=0)) == pytest.approx(1.0, rel=0.04)


def test_threshold_is_that_of_secure_aggregation() -> None:
    assert [smallest_sum(n) for n in range(3, 200)] == [default_threshold(n) for n in range(3, 200)]
    with pytest.raises(FairSiloError, match="at least 3"):
        smallest_sum(2)


def test_nothing_is_left_below_the_grid() -> None:
    """For any low bits of the sums, the sent numbers are exact multiples of the step."""
    values = np.random.default_rng(2).normal(size=1000) * 1e4
    step = grid(0.7)
    sent = blur(values, 0.7, step, seeded(3))
    np.testing.assert_array_equal(np.rint(sent / step) * step, sent)
    # The same noise on another vector that rounds to the same grid point gives the same numbers.
    near = np.rint(values / step) * step
    np.testing.assert_array_equal(blur(near, 0.7, step, seeded(3)), sent)


def test_a_sum_beyond_the_grid_is_refused() -> None:
    with pytest.raises(FairSiloError, match="too large beside its noise"):
        blur(np.array([1e12]), 1e-3, grid(1e-3), seeded(0))


def test_rounding_is_paid_for() -> None:
    """Rounding moves each coordinate by half a step: the sensitivity grows by step * sqrt(d)."""
    many = 100_000
    exact, coarse = mechanism(1, 1), mechanism(1, 1)
    small = exact.release([Message("sums", np.zeros(4), 1.0, 1.0)])
    assert np.isfinite(small).all()
    noise = coarse.release([Message("sums", np.zeros(many), 1.0, 1.0)])
    assert noise.std() > 1 - 4 / math.sqrt(2 * many)
