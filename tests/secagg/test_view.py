"""The server's view of one silo: words that look uniform and contain none of its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fairsilo.secagg.ring import encode
from tests.secagg.federation import Federation, agreement, names

SIZE = 6000


@pytest.fixture(scope="module")
def sent() -> tuple[NDArray[np.float64], list[NDArray[np.uint64]]]:
    """One silo's vector (small integers and zeros) and its masked words in two rounds."""
    federation = Federation(agreement(4))
    federation.set_up(2)
    vector = np.arange(SIZE, dtype=np.float64) % 7
    words = []
    for _ in range(2):
        round_ = federation.collect(dict.fromkeys(names(4), vector))
        assert federation.server._round is not None
        words.append(federation.server._round.vectors[names(4)[0]])
        np.testing.assert_array_equal(federation.unmask(round_), 4 * vector)
    return vector, words


def test_every_byte_position_is_uniform(
    sent: tuple[NDArray[np.float64], list[NDArray[np.uint64]]],
) -> None:
    """Chi-square over 256 values, 255 df: mean 255, sd 22.6; 400 is 6.4 sd (P about 1e-8)."""
    for words in sent[1]:
        table = words.view(np.uint8).reshape(-1, 8)
        for column in table.T:
            counts = np.bincount(column, minlength=256)
            expected = column.size / 256
            assert ((counts - expected) ** 2 / expected).sum() < 400


def test_the_plain_encoding_would_fail_that_test(
    sent: tuple[NDArray[np.float64], list[NDArray[np.uint64]]],
) -> None:
    column = encode(sent[0], 4).view(np.uint8).reshape(-1, 8)[:, 0]
    counts = np.bincount(column, minlength=256)
    assert ((counts - column.size / 256) ** 2 / (column.size / 256)).sum() > 400


def test_none_of_the_numbers_is_in_it(
    sent: tuple[NDArray[np.float64], list[NDArray[np.uint64]]],
) -> None:
    """Neither as float64 nor encoded, including zeros and the check word."""
    vector, (one, two) = sent
    for words in (one, two):
        assert not np.isin(words, encode(vector, 4)).any()
        assert not np.isin(words, vector.view(np.uint64)).any()
    assert not (one == two).any()  # the same vector, hidden by fresh masks


def test_survivors_vectors_are_uncorrelated(
    sent: tuple[NDArray[np.float64], list[NDArray[np.uint64]]],
) -> None:
    """The difference of two rounds of the same vector is uniform too: no mask was used twice."""
    one, two = sent[1]
    counts = np.bincount((one - two).view(np.uint8), minlength=256)
    expected = one.nbytes / 256
    assert ((counts - expected) ** 2 / expected).sum() < 400
