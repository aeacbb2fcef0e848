"""Masks: key agreement, key derivation and the key stream that hides a vector.

In round r silo u sends, modulo 2^64,

    y_u = x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)

b_u: the self-mask seed; s_uv: X25519 of u's and v's keys of round r. PRG is ChaCha20 on zeros
with a key derived by HKDF-SHA256. Each key is used for one stream only, so the nonce may be zero.
"""

import hashlib
import json
import secrets

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.ring import Words

KEY_BYTES = 32


def bound_to(context: bytes, question: bytes, roster: list[str]) -> bytes:
    """The context of one question to one roster: masks cancel only among those who share it.

    Otherwise a server could, in the same round, ask one silo for its sums and the others for
    something that it already knows, or tell silos different rosters and open sums over fewer.
    """
    return hashlib.sha256(_info("question", context, roster) + question).digest()


def new_secret() -> bytes:
    """32 bytes from the operating system: an X25519 private key or a seed."""
    return secrets.token_bytes(KEY_BYTES)


def public_of(private: bytes) -> bytes:
    """The public key of an X25519 private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def commitment(context: bytes, round_: int, seed: bytes) -> bytes:
    """A digest to check a reconstructed seed against; it reveals nothing about a random seed."""
    return hashlib.sha256(_info("commitment", context, round_) + seed).digest()


def derive(secret: bytes, label: str, context: bytes, *parts: object) -> bytes:
    """A key for one purpose: HKDF-SHA256 with label, agreement and parts as info."""
    kdf = HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=_info(label, context, *parts))
    return kdf.derive(secret)


def agree(private: bytes, public: bytes) -> bytes:
    """X25519; refuses public keys of small order."""
    try:
        key = X25519PrivateKey.from_private_bytes(private)
        return key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise ProtocolError("A silo's public key of this round is not a valid one.") from error


def stream(key: bytes, size: int) -> Words:
    """`size` words of ChaCha20."""
    encryptor = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)


def self_mask(seed: bytes, context: bytes, round_: int, silo: str, size: int) -> Words:
    """PRG(b_u)."""
    return stream(derive(seed, "self", context, round_, silo), size)


def pair_mask(
    private: bytes, public: bytes, context: bytes, round_: int, pair: tuple[str, str], size: int
) -> Words:
    """The mask that silo `pair[0]` adds for `pair[1]`: +PRG(s_uv) if it comes first, else -."""
    own, other = pair
    shared = agree(private, public)
    key = derive(shared, "pair", context, round_, min(pair), max(pair))
    mask = stream(key, size)
    return mask if own < other else np.negative(mask)


def check_word(context: bytes, round_: int, roster: list[str], scale: bytes) -> Words:
    """A word that every silo of a round appends, to detect masks that do not cancel.

    It depends on everything the silos must agree on; the sum over k survivors is k times it.
    """
    digest = hashlib.sha256(_info("check", context, round_, roster) + scale).digest()
    return np.frombuffer(digest[:8], dtype="<u8").astype(np.uint64)


def _info(label: str, context: bytes, *parts: object) -> bytes:
    return json.dumps(["fairsilo secure aggregation 1", label, context.hex(), *parts]).encode()
