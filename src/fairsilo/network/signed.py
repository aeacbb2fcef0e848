"""Signatures of witnesses on a question: made at a witness, asked for by a silo."""

from __future__ import annotations

from fairsilo.network.federation_file import FederationFile
from fairsilo.network.wire import Ask, Refusal, unpack_parcels
from fairsilo.secagg.keys import NodeKey, read_public_key, sign, verified

KIND = "question"


def signature(ask: Ask, key: NodeKey) -> bytes:
    """A witness's word that this question follows."""
    return sign(key, KIND, ask.digest())


def is_signed(agreed: FederationFile, name: str, ask: Ask, found: bytes) -> bool:
    """Whether this is the witness's signature on the question."""
    keys = {one.name: one.public_key for one in agreed.witnesses}
    return name in keys and verified(read_public_key(name, keys[name]), KIND, ask.digest(), found)


def require_signatures(agreed: FederationFile, ask: Ask) -> None:
    """Refuse a question that not enough witnesses signed; others' signatures do not count."""
    signed = unpack_parcels(ask.signatures or b"{}")
    good = sum(is_signed(agreed, name, ask, signed[name]) for name in signed)
    if good < agreed.signers:
        raise Refusal(
            f"{good} witnesses signed this question and the federation file wants {agreed.signers}"
        )
