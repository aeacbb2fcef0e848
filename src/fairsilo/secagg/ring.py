"""Fixed-point numbers in the ring of integers modulo 2^64, two words a number.

With N silos and |x| <= bound let e be the smallest integer with N * bound <= 2^e. Then
f = x * 2^(62 - e) has |f| <= 2^62 / N, and x is sent as the pair

    high = floor(f)                        one word, two's complement; a sum stays within 2^62
    low  = round((f - high) * 2^52)        one word, 52 bits used; 12 bits hold up to 4095 carries

Words are added modulo 2^64, including masks. Neither sum wraps once the masks are removed, so
decoding gets the exact integers and moves the carries of `low` into `high`. Scaling by powers of
two and `floor` are exact in float64, so the error of a number is at most 2^-52 in units of `high`,
that is bound * N * 2^-113: 1e-15 with the default bound 2^60 and 16 silos, independent of the
other numbers. Integers up to 2^53 are exact.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError

DEFAULT_BOUND = 2.0**60
HIGH_BITS = 62
LOW_BITS = 52
MOST_SILOS = 2 ** (64 - LOW_BITS) - 1

Words = NDArray[np.uint64]


def exponents(bound: ArrayLike, silos: int, size: int) -> NDArray[np.int64]:
    """The e of each of `size` numbers: the smallest integer with silos * bound <= 2^e."""
    limits = np.broadcast_to(np.asarray(bound, dtype=np.float64), (size,))
    if not (np.isfinite(limits).all() and (limits > 0).all() and (limits < 2.0**500).all()):
        raise FairSiloError("The bound of a masked number must be positive and below 2^500.")
    if not 1 <= silos <= MOST_SILOS:
        raise FairSiloError(f"Secure aggregation adds at most {MOST_SILOS} silos, not {silos}.")
    mantissa, power = np.frexp(limits * silos)
    return np.where(mantissa == 0.5, power - 1, power).astype(np.int64)


def encode(values: ArrayLike, silos: int, bound: ArrayLike = DEFAULT_BOUND) -> Words:
    """The 2n words of n numbers: first all high words, then all low ones.

    Refuses numbers that could overflow in a sum over `silos` silos, before anything is masked.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise FairSiloError(f"A masked vector has one dimension, not {numbers.ndim}.")
    shift = HIGH_BITS - exponents(bound, silos, numbers.size)
    _check(numbers, np.broadcast_to(np.asarray(bound, dtype=np.float64), numbers.shape))
    scaled = np.ldexp(numbers, shift)
    high = np.floor(scaled)
    low = np.rint((scaled - high) * 2.0**LOW_BITS)
    return np.concatenate([high.astype(np.int64).view(np.uint64), low.astype(np.uint64)])


def decode(words: Words, silos: int, bound: ArrayLike = DEFAULT_BOUND) -> Floats:
    """The sums of the numbers whose encodings add up to `words`."""
    size = words.size // 2
    shift = HIGH_BITS - exponents(bound, silos, size)
    high, low = words[:size].view(np.int64), words[size:]
    carried = high + (low >> np.uint64(LOW_BITS)).astype(np.int64)
    rest = (low & np.uint64(2**LOW_BITS - 1)).astype(np.float64)
    return np.ldexp(carried.astype(np.float64) + np.ldexp(rest, -LOW_BITS), -shift)


def _check(numbers: Floats, bound: Floats) -> None:
    """Refuse numbers that cannot be sent; the message does not contain the number."""
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise FairSiloError(
            f"Number {int(bad.argmax())} of the vector to be masked is NaN or infinite "
            f"({int(bad.sum())} such in all); nothing was sent."
        )
    bad = np.abs(numbers) > bound
    if bad.any():
        where = int(bad.argmax())
        raise FairSiloError(
            f"Number {where} of the vector to be masked is larger than the agreed bound "
            f"{bound[where]:.3g} ({int(bad.sum())} such in all); nothing was sent."
        )
