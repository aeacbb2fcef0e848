"""Masks: both silos of a pair get the same stream, and no other input gives it."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from fairsilo.secagg import ProtocolError
from fairsilo.secagg.masks import (
    agree,
    check_word,
    commitment,
    derive,
    new_secret,
    pair_mask,
    public_of,
    self_mask,
    stream,
)

ONE, TWO = new_secret(), new_secret()
CONTEXT = bytes(range(32))


def test_a_pair_cancels() -> None:
    there = pair_mask(ONE, public_of(TWO), CONTEXT, 3, ("a", "b"), 100)
    back = pair_mask(TWO, public_of(ONE), CONTEXT, 3, ("b", "a"), 100)
    assert there.any()
    assert not (there + back).any()


def test_round_run_and_pair_each_give_another_stream() -> None:
    base = (CONTEXT, 3, ("a", "b"))
    masks = [
        pair_mask(ONE, public_of(TWO), *changed, 4).tobytes()
        for changed in (
            base,
            (bytes(32), 3, ("a", "b")),
            (CONTEXT, 4, ("a", "b")),
            (CONTEXT, 3, ("a", "c")),
        )
    ]
    masks += [
        self_mask(ONE, context, round_, silo, 4).tobytes()
        for context, round_, silo in (
            (CONTEXT, 3, "a"),
            (bytes(32), 3, "a"),
            (CONTEXT, 4, "a"),
            (CONTEXT, 3, "b"),
        )
    ]
    masks += [derive(ONE, label, CONTEXT, 3, "a") for label in ("self", "pair", "letter")]
    assert len(set(masks)) == len(masks)


def test_commitment_and_check_word_depend_on_all_their_parts() -> None:
    seeds = [commitment(c, r, s) for c in (CONTEXT, ONE) for r in (1, 2) for s in (ONE, TWO)]
    words = [
        check_word(c, r, roster, scale).tobytes()
        for c in (CONTEXT, ONE)
        for r in (1, 2)
        for roster in (["a", "b"], ["a", "b", "c"])
        for scale in (b"", bytes(8))
    ]
    assert len(set(seeds)) == 8
    assert len(set(words)) == 16


def test_the_stream_is_chacha20_in_little_endian_words() -> None:
    plain = Cipher(ChaCha20(ONE, bytes(16)), mode=None).encryptor().update(bytes(24))
    assert [int(word) for word in stream(ONE, 3)] == [
        int.from_bytes(plain[at : at + 8], "little") for at in (0, 8, 16)
    ]
    np.testing.assert_array_equal(stream(ONE, 100)[:3], stream(ONE, 3))


def test_key_agreement_by_rfc_7748() -> None:
    """Bob's side of the example in its section 6.1."""
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert public_of(bob).hex().startswith("de9edb7d7b7dc1b4d35b61c2ece43537")
    assert agree(bob, alice).hex() == shared


def test_public_keys_of_small_order_are_refused() -> None:
    with pytest.raises(ProtocolError, match="not a valid one"):
        agree(ONE, bytes(32))
