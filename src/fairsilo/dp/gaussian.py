"""The discrete Gaussian, exact: whole numbers y, with weights exp(-y^2 / (2 s^2)).

By rejection (Karney 2016, algorithm D, for a whole s; Canonne, Kamath and Steinke 2020 prove that
such noise is as private as normal noise). With k of weight exp(-k^2 / 2) and j uniform in [0, s),

    y = k s + j   is kept with probability   exp(-j (2 k s + j) / (2 s^2)),

and gets a sign; of 0 one sign only is kept. All random choices are exact: a uniform number is
compared with a probability bit by bit, as far as needed. Its first 64 bits are compared in
float64, for all draws at once; where they are closer than float64 can tell, which happens once in
2^39 comparisons, the probability is computed to as many digits as the decision takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Ints

Source = Callable[[int], bytes]
"""Returns n random bytes. Only tests use another source than the operating system's."""
Words = npt.NDArray[np.uint64]

UNSURE = 2.0**-40
"""Float64 has these probabilities to within 2^-46; what is closer is decided by more digits."""
LARGEST = 2**28
"""For larger s, j (2 k s + j) does not fit into 64 bits for all k of the table."""
PLACES = 20
"""The table has k < 20; the chance of a larger one is below 2^-280."""
WORD = 64


def discrete_gaussian(
    size: int, s: int, source: Source = os.urandom, unsure: float = UNSURE
) -> Ints:
    """`size` independent draws for a whole s from 1 to 2^28."""
    if not 1 <= s <= LARGEST:
        raise ValueError(f"the standard deviation {s} is not between 1 and 2^28")
    found = np.zeros(0, np.int64)
    while found.size < size:
        # Seven in ten are kept.
        found = np.concatenate([found, _kept(3 * (size - found.size) // 2 + 8, s, source, unsure)])
    return found[:size]


def _kept(tries: int, s: int, source: Source, unsure: float) -> Ints:
    """Of so many tries those that are kept."""
    first, second, third = _words(source, 3 * tries).reshape(3, tries)
    minus = np.frombuffer(source(tries), np.uint8) % 2 == 1
    k = _steps(first, source)
    # A word beyond the last whole multiple of s would make small j likelier: it is tossed.
    fair = second < np.uint64(2**WORD - 2**WORD % s) if 2**WORD % s else np.ones(tries, bool)
    j = (second % np.uint64(s)).astype(np.int64)
    over = j * (2 * k * s + j)
    near = np.exp(-over / (2.0 * s * s))
    uniform = third.astype(np.float64) * 2.0**-WORD
    kept = uniform < near
    for i in np.flatnonzero(np.abs(uniform - near) < unsure):
        kept[i] = _below(int(third[i]), Decimal(int(over[i])), Decimal(2 * s * s), source)
    y = k * s + j
    kept &= fair & ~(minus & (y == 0))
    return np.where(minus, -y, y)[kept]


def _steps(words: Words, source: Source) -> Ints:
    """k for each uniform word: how many of the table's cumulated probabilities are not above it."""
    edges = _edges(2)
    top = np.array([edge >> WORD for edge in edges], np.uint64)
    k = np.searchsorted(top, words, side="right").astype(np.int64)
    # A word that equals the first 64 bits of an edge may lie on either side of it.
    for i in np.flatnonzero((k > 0) & (top[np.maximum(k, 1) - 1] == words)):
        k[i] = _step(int(words[i]), source)
    return k


def _step(word: int, source: Source) -> int:
    words = 1
    while True:
        word, words = (word << WORD) | int(_words(source, 1)[0]), words + 1
        edges = _edges(words)
        if word not in edges:
            return sum(edge < word for edge in edges)


@lru_cache(maxsize=8)
def _edges(words: int) -> tuple[int, ...]:
    """P(k <= 0), P(k <= 1), ... as so many words of 64 bits, rounded down."""
    with localcontext() as context:
        # The last edges are within 10^-80 of 1 and must not be rounded to it.
        context.prec = 20 * words + 100
        weights = [(Decimal(-k * k) / 2).exp() for k in range(PLACES)]
        sums = [sum(weights[: k + 1]) for k in range(PLACES - 1)]
        whole = sum(weights)
        return tuple(int(part / whole * 2 ** (WORD * words)) for part in sums)


def _below(word: int, over: Decimal, under: Decimal, source: Source) -> bool:
    """Whether the uniform number that begins with this word is below exp(-over / under)."""
    words = 1
    while True:
        with localcontext() as context:
            context.prec = 20 * words + 20
            edge = int((-over / under).exp() * 2 ** (WORD * words))
        # The number lies in [word, word + 1), the edge in [edge - 1, edge + 2), rounding included.
        if abs(word - edge) > 2:
            return word < edge
        word, words = (word << WORD) | int(_words(source, 1)[0]), words + 1


def _words(source: Source, count: int) -> Words:
    return np.frombuffer(source(8 * count), "<u8")
