"""The noise in a release: its variance, its random source and its grid."""

import math
import os

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.dp import Budget, Ledger, Mechanism, Message
from fairsilo.dp.gaussian import Source
from fairsilo.dp.noise import blur, grid
from fairsilo.errors import FairSiloError
from fairsilo.threshold import default_threshold, smallest_sum


def seeded(seed: int) -> Source:
    return np.random.default_rng(seed).bytes


def mechanism(silos: int, smallest: int, seed: int = 0) -> Mechanism:
    return Mechanism(Ledger(Budget(100.0, 1e-5)), silos, smallest, seeded(seed))


def test_the_operating_system_is_asked() -> None:
    assert Mechanism(Ledger(Budget(1.0, 1e-5)), 3, 3).source is os.urandom
    nothing, step = np.zeros(8), grid(1.0)
    assert not np.array_equal(blur(nothing, 1.0, step), blur(nothing, 1.0, step))


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
    assert smallest_sum(50, threshold=40) == 40
    assert smallest_sum(2, secure=False) == 1
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


def test_whole_steps_of_noise_are_never_less_than_was_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The standard deviation is rounded up to whole steps, the sensitivity padded for rounding."""
    asked: list[int] = []

    def noted(size: int, s: int, source: Source) -> Floats:
        asked.append(s)
        return np.zeros(size)

    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", noted)
    for size in (1, 6000):
        for sensitivity in (0.3, 1.0, 5.7):
            mechanism(50, 34).release([Message("sums", np.zeros(size), sensitivity, 3.1)])
            wanted = 3.1 * sensitivity * math.sqrt(50 / 34)
            step = grid(wanted)
            assert 2**24 <= asked[-1] < 2**25 + 2**12
            assert asked[-1] * step >= wanted + 3.1 * math.sqrt(50 / 34) * step * math.sqrt(size)
            assert asked[-1] * step < 1.0001 * wanted
