"""Secure aggregation on the wire: five steps, each a record of its own.

    advertise  server names rounds first..last,
               federation file and purpose        silo: its signed keys
    share      everybody's keys                   silo: a sealed letter for every other silo
    masked     the question, the silo's letters   silo: its vector behind masks
    confirm    the survivors and, of each,
               the digest of what it sent         silo: its signature on that list
    reveal     that list, all signatures          silo: the shares that open the sum, nothing else

The first two prepare many rounds at once; the others are a round. What a silo remembers from one
step to the next (its worker may be a new one) is in Flower's state for the run; from run to run it
remembers over whom its sums were opened (`ledger`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.ledger import admit, admit_point
from fairsilo.network.settings import Settings
from fairsilo.network.silo import answer, start_of
from fairsilo.network.wire import (
    VERSION,
    Ask,
    Memory,
    Record,
    Refusal,
    pack_parcels,
    unpack_parcels,
)
from fairsilo.question import Question
from fairsilo.secagg import (
    DEFAULT_BOUND,
    Agreement,
    ProtocolError,
    SiloSession,
    load_node_key,
)
from fairsilo.secagg.keys import NodeKey

STEPS = ("advertise", "share", "masked", "confirm", "reveal")
COUNTS = "counts"
"""The sums that tell how many rows there are, under one name: columns, counts and tallies."""


def opens_counts(question: Question) -> bool:
    """Whether the answers' sum tells exact counts of rows that other questions tell, too.

    Under differential privacy only the test rows' tallies do. What is said of training rows has
    fresh noise in every answer: a sum over all silos less one over all but one is what the one
    sent, with the noise of both sums, and its ledger has paid for more than that.
    """
    return not (question.moving or question.private)


def agreement_of(agreed: FederationFile, run: str) -> Agreement:
    """What the protocol is about: the silos of the federation file, in this run."""
    return Agreement(
        fingerprint=agreed.fingerprint,
        run_id=run,
        silos={silo.name: silo.public_key for silo in agreed.silos},
        threshold=agreed.threshold,
    )


def letter(step: str, **values: Any) -> Record:
    """A step of the protocol, for the wire; maps of bytes travel as one text."""
    packed = {
        key: pack_parcels(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
    }
    return {"version": VERSION, "step": step, **packed}


def masked_reply(
    settings: Settings, agreed: FederationFile, record: Record, memory: Memory, run: str
) -> Record:
    """A silo's answer to one step; what must not be used twice is saved before it is sent."""
    if not agreed.secure_aggregation:
        raise Refusal("the federation file has no secure aggregation")
    step = record.get("step")
    if step not in STEPS:
        raise Refusal("this is no step of the secure aggregation")
    saved = memory.get("session")
    session = (
        SiloSession(agreement_of(agreed, run), settings.name)
        if saved is None
        else SiloSession.from_bytes(bytes(saved))
    )
    if session.agreement.fingerprint != agreed.fingerprint:
        raise Refusal("the federation file changed within the run: start another")
    try:
        content = _step(step, settings, agreed, record, memory, session)
    except ProtocolError as error:
        # These sentences name silos and rounds and nothing of the rows.
        raise Refusal(str(error)) from None
    finally:
        memory["session"] = session.to_bytes()
    return letter(step, content=content, refused="")


def _step(
    step: str,
    settings: Settings,
    agreed: FederationFile,
    record: Record,
    memory: Memory,
    session: SiloSession,
) -> bytes:
    for name in ("first", "last", "round"):
        if name in record and type(record[name]) is not int:
            raise Refusal(f"{name} of a step of the secure aggregation is no whole number")
    if step == "advertise":
        return session.advertise(record["first"], record["last"], _key(settings))
    if step == "share":
        return pack_parcels(session.share(unpack_parcels(record["parcels"])))
    if step == "masked":
        values = {k.removeprefix("ask."): v for k, v in record.items() if k.startswith("ask.")}
        ask = Ask.from_record(values)
        session.receive(unpack_parcels(record["parcels"]))
        session.expect(record["round"])
        vector, spoiled = sendable(answer(settings, agreed, ask, memory))
        words = session.masked(record["round"], vector, question=ask.digest(), spoiled=spoiled)
        # Only now, when no earlier round can be opened any more; of the rows that it is about.
        memory["rows"] = str(memory["guarded"])
        memory["moving"] = ask.question.moving
        memory["point"] = "" if agreed.dp is not None else point_of(agreed, ask)
        memory["opened"] = opens_counts(ask.question)
        return to_bytes(words)
    answers = unpack_parcels(record["answers"])
    if step == "reveal":
        return session.reveal(record["round"], answers, unpack_parcels(record["parcels"]))
    signed = session.confirm(record["round"], answers, _key(settings))
    # After the protocol's own checks, before the signature leaves: without it nothing is opened.
    rows, survivors, own = str(memory["rows"]), sorted(answers), settings.name
    if not memory["moving"]:
        admit(settings.ledger, agreed, rows, survivors, bool(memory["opened"]), own)
    elif agreed.dp is None:
        admit_point(settings.ledger, agreed, rows, survivors, str(memory["point"]))
    return signed


def sendable(vector: Floats) -> tuple[Floats, bool]:
    """The vector, or zeros where a number of it cannot be masked, and whether that is so.

    Whether numbers are finite and within the bound depends on the rows, and a server that chose
    encoder and weights could ask for it, one silo at a time. So the silo does not refuse: only
    the sum over all tells that some silo had no answer.
    """
    beyond = ~(np.abs(vector) <= DEFAULT_BOUND)
    if not beyond.any():
        return vector, False
    log = logging.getLogger("flwr")
    log.error("fairsilo: %d numbers of an answer are not finite, or too large", beyond.sum())
    return np.zeros_like(vector), True


def point_of(agreed: FederationFile, ask: Ask) -> str:
    """By what a silo knows again where sums of its rows were opened; nothing for the start.

    Every training by the same file starts at the same point, whoever takes part: what is opened
    there is guarded with the counts.
    """
    theta = getattr(ask.question, "theta", None)
    if theta is None or np.array_equal(theta, start_of(agreed, ask)):
        return ""
    return hashlib.sha256(theta.tobytes() + ask.scalings.tobytes()).hexdigest()[:32]


def _key(settings: Settings) -> NodeKey:
    if settings.key is None:
        raise Refusal("this silo's settings name no key to sign with")
    return load_node_key(settings.key)


def to_bytes(words: npt.NDArray[np.uint64]) -> bytes:
    """Words, little-endian."""
    return np.ascontiguousarray(words, dtype="<u8").tobytes()


def from_bytes(content: Any) -> npt.NDArray[np.uint64]:
    """The words that `to_bytes` wrote."""
    if not isinstance(content, bytes) or len(content) % 8:
        raise FairSiloError("sent a vector that is not made of 8-byte words")
    return np.frombuffer(content, dtype="<u8").astype(np.uint64)
