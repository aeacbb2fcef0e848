"""Survivor lists: a silo's checks before it shows a share, and its signature on the list.

A list has the digest of every survivor's masked answer. Every survivor signs (agreement, round,
roster, list) with its node key, one list a round, and no silo shows a share before it has seen the
signatures of all of them on the list that it received. So no answer is in a sum to which its silo
did not agree; two lists of a round, of t silos or more each, need 2t - N silos that sign twice;
and nobody can choose an answer once shares are shown.
"""

import hashlib
from collections.abc import Mapping

import numpy as np

from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.keys import verified
from fairsilo.secagg.ring import Words
from fairsilo.secagg.wire import pack, text_of, texts

Answers = Mapping[str, bytes]
"""By survivor, the digest of its masked answer."""


def digest_of(words: Words) -> bytes:
    """What a masked answer is known by in a list."""
    return hashlib.sha256(np.ascontiguousarray(words, dtype="<u8").tobytes()).digest()


def checked(
    agreement: Agreement, silo: str, sent: bytes, roster: list[str], asked: Answers
) -> dict[str, bytes]:
    """The list, sorted by name; refused if `silo`, which sent an answer, must not sign it."""
    strangers = sorted(set(asked) - set(roster))
    if strangers:
        raise ProtocolError(
            f"The survivor list names {', '.join(map(str, strangers))}, not in this set-up."
        )
    if silo not in asked:
        raise ProtocolError(
            f"The survivor list leaves out silo {silo}, which was asked to answer it; "
            "it shows no shares."
        )
    if bytes(asked[silo]) != sent:
        raise ProtocolError(f"The survivor list has another answer of silo {silo} than it sent.")
    if len(asked) < agreement.t:
        raise ProtocolError(
            f"The survivor list has {len(asked)} silos and {agreement.t} are needed; "
            "no shares are shown."
        )
    return {name: bytes(asked[name]) for name in sorted(asked)}


def statement(agreement: Agreement, round_: int, roster: list[str], answers: Answers) -> bytes:
    """The bytes that are signed."""
    return pack(
        "survivors",
        context=text_of(agreement.context),
        round=round_,
        roster=roster,
        answers=texts(answers),
    )


def require_confirmations(
    agreement: Agreement, said: bytes, answers: Answers, signatures: Mapping[str, bytes]
) -> None:
    """Refuse unless every survivor signed the statement; a forged signature is none."""
    missing = [
        silo
        for silo in sorted(answers)
        if silo not in signatures
        or not verified(agreement.public_keys[silo], "survivors", said, bytes(signatures[silo]))
    ]
    if missing:
        raise ProtocolError(
            f"Not signed by {', '.join(missing)}: a survivor list needs the signature of every "
            "silo in it; no shares are shown."
        )
