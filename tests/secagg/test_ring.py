"""Fixed point in the ring: exact sums at all magnitudes; bad numbers refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.errors import FairSiloError
from fairsilo.secagg.ring import DEFAULT_BOUND, MOST_SILOS, decode, encode, exponents

NUMBERS = st.floats(-(2.0**60), 2.0**60, allow_nan=False)
MIXED = st.one_of(
    NUMBERS, st.floats(-1e3, 1e3), st.floats(-1e-3, 1e-3), st.integers(-(10**9), 10**9)
)


def exact(values: list[float]) -> float:
    return float(sum((Fraction(v) for v in values), Fraction(0)))


def added(columns: list[list[float]], silos: int, bound: float = DEFAULT_BOUND) -> list[float]:
    """Each inner list is one silo's vector; the sum goes through the ring."""
    with np.errstate(over="ignore"):
        words = np.sum([encode(column, silos, bound) for column in columns], axis=0, dtype="uint64")
    return list(decode(words, silos, bound))


@given(st.lists(MIXED, min_size=1, max_size=40))
def test_sum_is_exact_to_the_documented_step(values: list[float]) -> None:
    silos = len(values)
    (total,) = added([[v] for v in values], silos)
    step = DEFAULT_BOUND * silos * 2.0**-111  # N numbers, each off by bound * N' * 2^-113, N' <= 2N
    assert abs(total - exact(values)) <= silos * step + 2.0**-51 * abs(exact(values))


@given(
    st.lists(st.floats(1e-5, 1e18), min_size=1, max_size=20),
    st.sampled_from([-1.0, 1.0]),
)
def test_sum_is_relative_1e_9_over_23_decades(values: list[float], sign: float) -> None:
    (total,) = added([[sign * v] for v in values], len(values))
    assert total == pytest.approx(sign * math.fsum(values), rel=1e-9, abs=0.0)


@given(st.lists(st.integers(-(2**47), 2**47), min_size=1, max_size=50))
def test_integers_add_without_any_error(values: list[int]) -> None:
    (total,) = added([[float(v)] for v in values], 50)
    assert total == sum(values)


def test_cancellation_leaves_the_small_number() -> None:
    (total,) = added([[1e15], [3.25e-6], [-1e15]], 3)
    assert total == pytest.approx(3.25e-6, rel=1e-9)


def test_the_extremes_do_not_wrap() -> None:
    for silos in (3, 7, 50, MOST_SILOS):
        for sign in (-1.0, 1.0):
            words = encode([sign * DEFAULT_BOUND], silos)
            with np.errstate(over="ignore"):
                total = decode(words * np.uint64(silos), silos)
            assert total[0] == pytest.approx(sign * DEFAULT_BOUND * silos, rel=1e-15)


def test_tiny_negative_numbers_carry() -> None:
    words = encode([-1e-30], MOST_SILOS)
    with np.errstate(over="ignore"):
        total = decode(words * np.uint64(MOST_SILOS), MOST_SILOS)
    assert abs(total[0]) <= DEFAULT_BOUND * MOST_SILOS**2 * 2.0**-112


@given(NUMBERS, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_mask_comes_off_again(value: float, high: int, low: int) -> None:
    mask = np.array([high, low], dtype=np.uint64)
    words = encode([value], 5)
    assert decode((words + mask) - mask, 5) == decode(words, 5)


def test_bounds_may_differ_between_slots() -> None:
    bound = np.array([1e-12, 1.0, 1e30])
    one, two = np.array([1e-25, 0.125, 9e29]), np.array([-9e-13, 0.5, -1.0])
    words = encode(one, 4, bound) + encode(two, 4, bound)
    np.testing.assert_allclose(decode(words, 4, bound), one + two, rtol=1e-12)


@pytest.mark.parametrize(("silos", "bound", "e"), [(4, 2.0**60, 62), (5, 2.0**60, 63), (1, 1.5, 1)])
def test_exponent_by_hand(silos: int, bound: float, e: int) -> None:
    assert exponents(bound, silos, 1)[0] == e


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_by_position(bad: float) -> None:
    with pytest.raises(FairSiloError, match=r"Number 2 .* NaN or infinite"):
        encode([0.0, 1.0, bad, bad], 4)


def test_overflow_is_refused_without_telling_the_number() -> None:
    with pytest.raises(
        FairSiloError, match=r"Number 1 .* larger than the agreed bound 10 "
    ) as told:
        encode([9.0, 12345.678], 4, bound=10.0)
    assert "12345" not in str(told.value)
    with pytest.raises(FairSiloError, match="larger than the agreed bound"):
        encode([np.nextafter(DEFAULT_BOUND, np.inf)], 4)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, 1e300])
def test_bad_bounds_are_refused(bound: float) -> None:
    with pytest.raises(FairSiloError, match="bound"):
        encode([0.0], 4, bound)


def test_shape_and_number_of_silos_are_checked() -> None:
    with pytest.raises(FairSiloError, match="one dimension"):
        encode([[1.0]], 4)
    with pytest.raises(FairSiloError, match="at most 4095"):
        encode([1.0], MOST_SILOS + 1)
