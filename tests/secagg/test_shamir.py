"""Any t shares give the secret; t - 1 shares are consistent with every secret."""

from __future__ import annotations

import random
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.secagg.shamir import PRIME, SHARE_BYTES, combine, split, weights_at_zero

SECRET = st.binary(min_size=32, max_size=32)


@st.composite
def scheme(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """N, t and an order of the points."""
    count = draw(st.integers(1, 20))
    return count, draw(st.integers(1, count)), draw(st.permutations(range(1, count + 1)))


def test_the_modulus_is_prime_and_large_enough() -> None:
    """Miller-Rabin with 64 random bases: wrong with probability below 4^-64."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(64):
        x = pow(secrets.randbelow(PRIME - 3) + 2, odd, PRIME)
        powers = [x]
        for _ in range(twos - 1):
            powers.append(powers[-1] ** 2 % PRIME)
        assert x == 1 or PRIME - 1 in powers
    assert PRIME > 2**256


@given(SECRET, scheme())
def test_any_t_shares_give_the_secret(secret: bytes, drawn: tuple[int, int, list[int]]) -> None:
    count, t, order = drawn
    shares = split(secret, t, range(1, count + 1))
    assert {len(share) for share in shares} == {SHARE_BYTES}
    chosen = order[:t]
    assert combine(weights_at_zero(chosen), [shares[x - 1] for x in chosen]) == secret


@given(SECRET, SECRET, scheme())
def test_fewer_shares_fit_every_secret(
    secret: bytes, other: bytes, drawn: tuple[int, int, list[int]]
) -> None:
    """For any other secret there is a t-th share that makes the same t - 1 shares give it."""
    count, t, order = drawn
    shares = split(secret, t, range(1, count + 1))
    chosen = order[:t]
    weights = weights_at_zero(chosen)
    known = [int.from_bytes(shares[x - 1], "big") for x in chosen[:-1]]
    partial = sum(w * s for w, s in zip(weights, known, strict=False))
    missing = (int.from_bytes(other, "big") - partial) * pow(weights[-1], -1, PRIME) % PRIME
    fitting = [share.to_bytes(SHARE_BYTES, "big") for share in [*known, missing]]
    assert combine(weights, fitting) == other


def test_a_share_alone_is_uniform() -> None:
    """The top 4 bits (below p's) of one share of a fixed secret, 4,000 times: chi-square, 15 df."""
    counts = [0] * 16
    for _ in range(4000):
        counts[split(bytes(32), 3, [2])[0][1] >> 4] += 1
    assert sum((c - 250) ** 2 / 250 for c in counts) < 60  # P < 1e-6


def test_shares_of_the_same_secret_differ_each_time() -> None:
    assert split(bytes(32), 3, [1, 2, 3]) != split(bytes(32), 3, [1, 2, 3])


def test_a_wrong_share_gives_another_secret_or_none() -> None:
    secret = random.Random(1).randbytes(32)
    shares = split(secret, 3, [1, 2, 3])
    shares[1] = bytes(SHARE_BYTES)
    assert combine(weights_at_zero([1, 2, 3]), shares) != secret


@pytest.mark.parametrize("points", [[1, 1], [0, 1]])
def test_points_are_distinct_and_not_zero(points: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        weights_at_zero(points)
