"""A silo that changes its key stays the same silo: both keys say so, and everybody can check it.

The old key signs the new one, so that nobody else can take a silo's place. The new key signs the
old one, so that nobody can claim another silo's key as an earlier one of its own: two silos that
ledgers take for one could be left out of a sum one after the other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

SUCCEEDS, FOLLOWS = "the next key", "the key before"
"""Kinds of signatures: by the old key of the new one, and by the new key of the old one."""


class Past(BaseModel):
    """A key that a silo had before, and what it and its successor signed of each other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    public_key: str
    """One line in OpenSSH's format."""
    signature: str
    """By this key, of its successor; base64."""
    accepted: str
    """By its successor, of this key."""


def change(old: EllipticCurvePrivateKey, new: EllipticCurvePrivateKey) -> Past:
    """The old key as the federation file keeps it beside the new one."""
    from fairsilo.secagg.keys import public_bytes, sign

    before, after = public_bytes(old.public_key()), public_bytes(new.public_key())
    return Past(
        public_key=before.decode(),
        signature=base64.b64encode(sign(old, SUCCEEDS, after)).decode(),
        accepted=base64.b64encode(sign(new, FOLLOWS, before)).decode(),
    )


def check_chain(silo: str, past: Sequence[Past], current: str) -> None:
    """Refuse keys of which one did not sign the next, or was not signed by it."""
    from fairsilo.secagg.keys import public_bytes, read_public_key, verified

    following = [*(one.public_key for one in past[1:]), current]
    for one, line in zip(past, following, strict=False):
        old, new = read_public_key(silo, one.public_key), read_public_key(silo, line)
        try:
            signature = base64.b64decode(one.signature, validate=True)
            accepted = base64.b64decode(one.accepted, validate=True)
        except binascii.Error:
            signature = accepted = b""
        if not (
            verified(old, SUCCEEDS, public_bytes(new), signature)
            and verified(new, FOLLOWS, public_bytes(old), accepted)
        ):
            raise FairSiloError(
                f"a key of silo {silo} is not signed by the one before it, and that one by it: "
                "take the file that `fairsilo flower rotate-key` wrote at the silo"
            )


def short(public_key: str) -> str:
    """A digest of a key without its comment, by which ledgers know it."""
    return hashlib.sha256(public_key.split()[1].encode()).hexdigest()[:32]
