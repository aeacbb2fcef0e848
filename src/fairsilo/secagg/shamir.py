"""Shamir's secret sharing over the prime field of p = 2^256 + 297.

A secret is 32 bytes, read as an integer below 2^256 < p; a share is 33 bytes. The share of
silo number x (1, 2, ..., N) is f(x) for a random polynomial f of degree t - 1 with f(0) the
secret. Any t shares give f(0); t - 1 shares are consistent with every secret.

Operations on Python integers do not take constant time. That is out of scope: only the silo itself
can observe its timing.
"""

import secrets
from collections.abc import Sequence

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(secret: bytes, threshold: int, points: Sequence[int]) -> list[bytes]:
    """One share of `secret` for each of `points`; any `threshold` of them restore it."""
    falling = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    falling.append(int.from_bytes(secret, "big"))
    shares = []
    for x in points:
        value = 0
        for coefficient in falling:  # Horner; x is small, so one reduction at the end is cheaper
            value = value * x + coefficient
        shares.append((value % PRIME).to_bytes(SHARE_BYTES, "big"))
    return shares


def weights_at_zero(points: Sequence[int]) -> list[int]:
    """Lagrange weights: f(0) = sum_k weight_k f(points_k) modulo p."""
    if len(set(points)) != len(points) or 0 in points:
        raise ValueError("points must be distinct and not zero")
    weights = []
    for x in points:
        above, below = 1, 1
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights


def combine(weights: Sequence[int], shares: Sequence[bytes]) -> bytes | None:
    """The secret of the shares at the points of `weights`; None if it is not below 2^256."""
    total = sum(
        weight * int.from_bytes(share, "big") for weight, share in zip(weights, shares, strict=True)
    )
    value = total % PRIME
    return value.to_bytes(SECRET_BYTES, "big") if value < 2**256 else None
