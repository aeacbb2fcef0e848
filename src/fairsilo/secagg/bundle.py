"""A silo's signed public keys for many rounds: the first message of a set-up."""

import hashlib
from dataclasses import dataclass

from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.keys import NodeKey, sign, verified
from fairsilo.secagg.masks import KEY_BYTES
from fairsilo.secagg.wire import pack, text_of, unpack

MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Bundle:
    """Public values only: a letter key, and for each round a mask key and a seed commitment."""

    silo: str
    first: int
    last: int
    letter_key: bytes
    mask_keys: bytes
    commitments: bytes
    digest: bytes

    def mask_key(self, round_: int) -> bytes:
        """The silo's X25519 public key of that round."""
        return _slot(self.mask_keys, round_ - self.first)

    def commitment(self, round_: int) -> bytes:
        """The digest of the silo's self-mask seed of that round."""
        return _slot(self.commitments, round_ - self.first)

    def public_keys(self) -> list[bytes]:
        """All public keys, the letter key first."""
        return [self.letter_key, *(self.mask_key(r) for r in range(self.first, self.last + 1))]


def check_range(first: int, last: int) -> None:
    """Refuse empty and excessive ranges of rounds."""
    if not 0 <= first <= last or last - first >= MOST_ROUNDS:
        raise ProtocolError(
            f"A set-up covers 1 to {MOST_ROUNDS} rounds, which {first} to {last} does not."
        )


def seal(
    agreement: Agreement,
    bundle: tuple[str, int, int],
    keys: tuple[bytes, bytes, bytes],
    by: NodeKey,
) -> bytes:
    """The signed message of (silo, first, last) and (letter key, mask keys, commitments)."""
    silo, first, last = bundle
    payload = pack(
        "bundle",
        context=text_of(agreement.context),
        fingerprint=agreement.fingerprint,
        run_id=agreement.run_id,
        silo=silo,
        first=first,
        last=last,
        letter_key=text_of(keys[0]),
        mask_keys=text_of(keys[1]),
        commitments=text_of(keys[2]),
    )
    return len(payload).to_bytes(4, "big") + payload + sign(by, "bundle", payload)


def opened(
    agreement: Agreement, silo: str, rounds: tuple[int, int], message: bytes, known: bool = False
) -> Bundle:
    """Verify a message and return the bundle of `silo` for these rounds of this run.

    `known`: its signature was good before, and the message was kept since.
    """
    agreement.check_silo(silo)
    if not isinstance(message, bytes):
        raise ProtocolError(f"The keys of silo {silo} are no bytes.")
    size = int.from_bytes(message[:4], "big")
    payload, signature = message[4 : 4 + size], message[4 + size :]
    if not known and not verified(agreement.public_keys[silo], "bundle", payload, signature):
        raise ProtocolError(
            f"The keys of silo {silo} are not signed by its key in the federation file: "
            "somebody speaks in its name, or its node key has changed."
        )
    fields = unpack("bundle", payload)
    first, last = fields.number("first"), fields.number("last")
    for name, theirs, ours in (
        ("silo", fields.text("silo"), silo),
        ("federation", fields.text("fingerprint"), agreement.fingerprint),
        ("run", fields.text("run_id"), agreement.run_id),
        ("agreement", fields.blob("context"), agreement.context),
        ("range of rounds", (first, last), rounds),
    ):
        if theirs != ours:
            shown = "" if isinstance(theirs, bytes) else f" ({theirs!r} instead of {ours!r})"
            raise ProtocolError(f"The keys of silo {silo} belong to another {name}{shown}.")
    count = last - first + 1
    return Bundle(
        silo,
        first,
        last,
        fields.blob("letter_key", KEY_BYTES),
        fields.blob("mask_keys", KEY_BYTES * count),
        fields.blob("commitments", KEY_BYTES * count),
        hashlib.sha256(payload).digest(),
    )


def _slot(table: bytes, index: int) -> bytes:
    if not 0 <= index < len(table) // KEY_BYTES:
        raise ProtocolError("There are no keys for this round in the current set-up.")
    return table[KEY_BYTES * index : KEY_BYTES * (index + 1)]
