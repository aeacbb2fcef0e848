"""Test vectors of docs/protocol.md: the protocol written down once more, from that page alone.

Nothing of fairsilo is imported here, so that page and code are compared with each other. Every
secret is derived from its name and signatures are deterministic (RFC 6979), so that
`python -m tests.secagg.make_vectors` always writes the same vectors.json.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

FILE = Path(__file__).with_name("vectors.json")
LABEL = "fairsilo secure aggregation 1"
PRIME = 2**256 + 297
ROSTER = ["bank", "clinic", "farm", "shop"]
SURVIVORS = ["bank", "clinic", "shop"]
T, FIRST, LAST, ROUND = 3, 0, 1, 1
SHIFT = 62 - 62  # of four silos and the bound 2^60: e = 62
ANSWERS = {
    "bank": [0.6931471805599453, -1.5, 1e-12, 1200.0],
    "clinic": [0.25, 3.0, -2e-12, 345.0],
    "farm": [0.5, 0.5, 0.5, 0.5],
    "shop": [1 / 3, -7.75, 0.0, 17.0],
}


def secret(*name: object) -> bytes:
    return hashlib.sha256(" ".join(map(str, ("test vector", *name))).encode()).digest()


def node_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(secret(name, "node key"), "big"), ec.SECP384R1())


def line_of(key: ec.EllipticCurvePrivateKey) -> str:
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key.public_key().public_bytes(*form).decode()


def to_sign(kind: str, payload: bytes) -> bytes:
    return LABEL.encode() + b"\0" + kind.encode() + b"\0" + payload


def signed(name: str, kind: str, payload: bytes) -> str:
    how = ec.ECDSA(hashes.SHA384(), deterministic_signing=True)
    return node_key(name).sign(to_sign(kind, payload), how).hex()


def info(label: str, context: bytes, *parts: object) -> bytes:
    return json.dumps([LABEL, label, context.hex(), *parts]).encode()


def message(kind: str, **fields: object) -> bytes:
    whole = {"kind": kind, "version": 1, "fields": fields}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def hkdf(key: bytes, told: bytes) -> bytes:
    pseudorandom = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(pseudorandom, told + b"\x01", "sha256")


def public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, other: bytes) -> bytes:
    key = X25519PublicKey.from_public_bytes(other)
    return X25519PrivateKey.from_private_bytes(private).exchange(key)


def words_of(key: bytes, count: int) -> list[int]:
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * count))
    return list(struct.unpack(f"<{count}Q", stream))


def encoded(numbers: list[float]) -> list[int]:
    exact = [Fraction(x) * 2**SHIFT for x in numbers]
    high = [floor(x) for x in exact]
    low = [round((x - h) * 2**52) for x, h in zip(exact, high, strict=True)]
    return [h % 2**64 for h in high] + low


def decoded(words: list[int]) -> list[float]:
    half = len(words) // 2
    high = [h - 2**64 if h >= 2**63 else h for h in words[:half]]
    pairs = zip(high, words[half:], strict=True)
    return [float(Fraction(h * 2**52 + low, 2 ** (52 + SHIFT))) for h, low in pairs]


def shares_of(owner: str, what: str, round_: int, value: bytes) -> dict[str, bytes]:
    terms = [int.from_bytes(value, "big"), *coefficients(owner, what, round_)]
    return {
        name: (sum(c * x**k for k, c in enumerate(terms)) % PRIME).to_bytes(33, "big")
        for x, name in enumerate(ROSTER, start=1)
    }


def coefficients(owner: str, what: str, round_: int) -> list[int]:
    """Of x, x^2, ...: t - 1 of them."""
    return [
        int.from_bytes(secret(owner, what, round_, "coefficient", k), "big") for k in range(1, T)
    ]


def question() -> dict[str, Any]:
    """A question's record; bytes are {"hex": ...}."""

    def numbers(*values: float) -> dict[str, str]:
        return {"hex": struct.pack(f"<{len(values)}d", *values).hex()}

    return {
        "version": 2, "kind": "round", "number": 4, "fingerprint": secret("file").hex(),
        "purpose": "fedfair", "encoded": True, "scalings": numbers(38.5, 13.25, 0.0),
        "cells": numbers(), "training": secret("training").hex()[:32],
        "history": secret("history").hex(), "signatures": {"hex": ""},
        "question.theta": numbers(0.1, -0.25, 2.0), "question.mu": numbers(0.5),
        "question.order": "first", "question.totals": numbers(1562, 400, 300, 462, 400, 4),
        "question.rest": False, "question.limited": True, "question.turn": 0,
    }  # fmt: skip


def digest_of(record: dict[str, Any]) -> bytes:
    plain = {k: v["hex"] if isinstance(v, dict) else v for k, v in record.items()}
    return hashlib.sha256(json.dumps({**plain, "signatures": ""}, sort_keys=True).encode()).digest()


def bundle(context: bytes, name: str, fingerprint: str, run: str) -> bytes:
    rounds = range(FIRST, LAST + 1)
    seeds = [secret(name, "seed", r) for r in rounds]
    pledges = [
        hashlib.sha256(info("commitment", context, r) + b).digest()
        for r, b in zip(rounds, seeds, strict=True)
    ]
    masks = [public(secret(name, "mask key", r)) for r in rounds]
    return message(
        "bundle", context=text(context), fingerprint=fingerprint, run_id=run, silo=name,
        first=FIRST, last=LAST, letter_key=text(public(secret(name, "letter key"))),
        mask_keys=text(b"".join(masks)), commitments=text(b"".join(pledges)),
    )  # fmt: skip


def letter(context: bytes, sender: str, to: str, digests: dict[str, bytes]) -> bytes:
    shared = agreed(secret(sender, "letter key"), public(secret(to, "letter key")))
    key = hkdf(shared, info("letter", context, digests[sender].hex(), digests[to].hex()))
    plain = b""
    for r in range(FIRST, LAST + 1):
        for what in ("seed", "mask key"):
            plain += shares_of(sender, what, r, secret(sender, what, r))[to]
    return ChaCha20Poly1305(key).encrypt(bytes(12), plain, context)


def masked(context: bytes, common: bytes, name: str, plain: list[int]) -> list[int]:
    own = hkdf(secret(name, "seed", ROUND), info("self", context, ROUND, name))
    total = [a + b for a, b in zip(plain, words_of(own, len(plain)), strict=True)]
    for other in ROSTER:
        if other != name:
            shared = agreed(
                secret(name, "mask key", ROUND), public(secret(other, "mask key", ROUND))
            )
            pair = sorted((name, other))
            stream = words_of(hkdf(shared, info("pair", common, ROUND, *pair)), len(plain))
            sign = 1 if name < other else -1
            total = [a + sign * b for a, b in zip(total, stream, strict=True)]
    return [word % 2**64 for word in total]


def vectors() -> dict[str, Any]:
    fingerprint, run = secret("file").hex(), "17"
    lines = {name: line_of(node_key(name)) for name in ROSTER}
    facts = json.dumps([fingerprint, run, lines, T], sort_keys=True)
    context = hashlib.sha256(facts.encode()).digest()
    payloads = {name: bundle(context, name, fingerprint, run) for name in ROSTER}
    digests = {name: hashlib.sha256(one).digest() for name, one in payloads.items()}
    set_up = {
        name: {
            "seeds": [secret(name, "seed", r).hex() for r in (FIRST, LAST)],
            "mask_keys": [secret(name, "mask key", r).hex() for r in (FIRST, LAST)],
            "letter_key": secret(name, "letter key").hex(),
            "coefficients": [
                [[hex(c) for c in coefficients(name, what, r)] for what in ("seed", "mask key")]
                for r in (FIRST, LAST)
            ],
            "bundle": payloads[name].decode(),
            "bundle_signature": signed(name, "bundle", payloads[name]),
            "letters": {
                to: letter(context, name, to, digests).hex() for to in ROSTER if to != name
            },
        }
        for name in ROSTER
    }
    record = question()
    asked = digest_of(record)
    common = hashlib.sha256(info("question", context, ROSTER) + asked).digest()
    scale = struct.pack("<4q", *[62 - SHIFT] * 4)
    check = hashlib.sha256(info("check", common, ROUND, ROSTER) + scale).digest()[:8]
    word = int.from_bytes(check, "little")
    sent = {name: masked(context, common, name, [*encoded(ANSWERS[name]), word]) for name in ROSTER}
    raw = {name: struct.pack(f"<{len(words)}Q", *words) for name, words in sent.items()}
    answers = {name: hashlib.sha256(raw[name]).digest() for name in SURVIVORS}
    statement = message(
        "survivors", context=text(context), round=ROUND, roster=ROSTER,
        answers={name: text(one) for name, one in answers.items()},
    )  # fmt: skip

    def shown(by: str, owner: str) -> str:
        what = "seed" if owner in SURVIVORS else "mask key"
        return text(shares_of(owner, what, ROUND, secret(owner, what, ROUND))[by])

    reveals = {
        name: message(
            "reveal", round=ROUND, survivors=SURVIVORS,
            shares={owner: shown(name, owner) for owner in ROSTER},
        ).decode()
        for name in SURVIVORS
    }  # fmt: skip
    plain = [encoded(ANSWERS[name]) for name in SURVIVORS]
    total = [sum(column) % 2**64 for column in zip(*plain, strict=True)]
    return {
        "about": "Vectors of docs/protocol.md, by make_vectors.py. The keys are public.",
        "agreement": {
            "fingerprint": fingerprint, "run_id": run, "silos": lines, "threshold": T,
            "context": context.hex(),
        },
        "node_keys": {
            name: hex(node_key(name).private_numbers().private_value)
            for name in (*ROSTER, "witness")
        },
        "set_up": {"first": FIRST, "last": LAST, "silos": set_up},
        "question": {
            "record": record, "digest": asked.hex(),
            "witness": line_of(node_key("witness")),
            "to_sign": to_sign("question", asked).hex(),
            "signature": signed("witness", "question", asked),
        },
        "round": {
            "number": ROUND, "roster": ROSTER, "survivors": SURVIVORS,
            "vectors": ANSWERS,
            "encoded": {name: [f"{w:016x}" for w in encoded(ANSWERS[name])] for name in ROSTER},
            "common": common.hex(), "check_word": f"{word:016x}",
            "masked": {name: one.hex() for name, one in raw.items()},
            "statement": statement.decode(),
            "confirmations": {name: signed(name, "survivors", statement) for name in SURVIVORS},
            "reveals": reveals,
            "sum_words": [f"{w:016x}" for w in total], "sum": decoded(total),
        },
        "digests": {
            # Of ledgers and of what owners read out.
            "key": {name: hashlib.sha256(lines[name].split()[1].encode()).hexdigest()[:32]
                    for name in ROSTER},
            "point": hashlib.sha256(
                bytes.fromhex(record["question.theta"]["hex"] + record["scalings"]["hex"])
            ).hexdigest()[:32],
            "training": hashlib.sha256(f"{record['training']} bank".encode()).hexdigest()[:32],
            "words": {name: proquints(lines[name]) for name in ROSTER},
        },
    }  # fmt: skip


def proquints(line: str) -> str:
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    consonants, vowels, words = "bdfghjklmnprstvz", "aiou", []
    for number in struct.unpack(">8H", digest[:16]):
        word = consonants[number >> 12] + vowels[number >> 10 & 3] + consonants[number >> 6 & 15]
        words.append(word + vowels[number >> 4 & 3] + consonants[number & 15])
    return " ".join(words)


def written() -> str:
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
