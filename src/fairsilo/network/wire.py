"""Questions and answers, and their form on the wire: one flat record of texts, numbers and bytes.

One record, because Flower fetches every object of a message with a request of its own. Vectors are
float64 in little-endian bytes; nothing is ever unpickled.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_type_hints

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.question import QUESTIONS, Question

Record = dict[str, Any]
Memory = MutableMapping[str, Any]
"""What a silo remembers of a run between two messages; its worker may be a new one meanwhile."""

VERSION = 2
RECORD = "fairsilo"
"""The name of the record in a message."""
OWN = "question."
"""Before the names of a question's own fields."""


class Refusal(FairSiloError):
    """Why a silo does not answer, in words that give nothing of its rows away."""


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Ask:
    """A question to every silo: nothing in it depends on which silo is asked."""

    question: Question
    number: int
    """Counts the questions of a run; an answer repeats it."""
    fingerprint: str
    purpose: str
    """The method, or audit."""
    encoded: bool = False
    """Whether there is an encoder yet."""
    scalings: Floats = field(default_factory=_none)
    """The encoder: mean, scale, missing of every numeric column."""
    cells: Floats = field(default_factory=_none)
    """The counts over all silos by which small groups are pooled."""
    training: str = ""
    """The training's own name, which stays when it is resumed in another run of Flower's."""
    history: str = ""
    """A digest of all earlier questions of the training and their sums."""
    signatures: bytes = b""
    """Of witnesses, by name, as one piece; empty: there are none."""

    @property
    def kind(self) -> str:
        """The kind of the question."""
        return self.question.kind

    def to_record(self) -> Record:
        """For the wire."""
        frame = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "question"}
        own = {OWN + f.name: getattr(self.question, f.name) for f in fields(self.question)}
        packed = {
            name: pack(value) if isinstance(value, np.ndarray) else value
            for name, value in {**frame, **own}.items()
        }
        return {"version": VERSION, "kind": self.kind, **packed}

    def digest(self) -> bytes:
        """Of the whole question but who signed it: answers to others are never added to its own."""
        whole = replace(self, signatures=b"").to_record()
        record = {k: v.hex() if isinstance(v, bytes) else v for k, v in whole.items()}
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()

    @classmethod
    def from_record(cls, record: Record) -> Ask:
        """What `to_record` wrote; anything else is refused."""
        import fairsilo.method  # noqa: F401  # methods have questions of their own

        record = dict(record)
        if record.pop("version", None) != VERSION:
            raise FairSiloError(
                "the question is of another version of fairsilo: install the coordinator's version"
            )
        kind = QUESTIONS.get(str(record.pop("kind", "")))
        if kind is None:
            raise FairSiloError("the question is not one that a silo knows: it is not answered")
        own = {k.removeprefix(OWN): record.pop(k) for k in list(record) if k.startswith(OWN)}
        return cls(question=kind(**_typed(kind, own)), **_typed(cls, record))


def _typed(made: type[Ask] | type[Question], record: Record) -> dict[str, Any]:
    """The values of exactly its fields, but for the question, and of their types."""
    # A module that nobody imported by name is known to its functions alone.
    names = getattr(made, "answer", None)
    kinds = get_type_hints(made, localns=getattr(names, "__globals__", None))
    if set(record) != {one.name for one in fields(made)} - {"question"}:
        raise FairSiloError("the question is not one that a silo knows: it is not answered")
    values: dict[str, Any] = {}
    for name, value in record.items():
        if kinds[name] == Floats:
            values[name] = unpack(value)
        elif type(value) is kinds[name]:
            values[name] = value
        else:
            raise FairSiloError("the question has a field of a wrong type: it is not answered")
    return values


@dataclass(frozen=True)
class Reply:
    """A silo's answer: a vector, or why there is none."""

    number: int
    kind: str
    vector: Floats = field(default_factory=_none)
    refused: str = ""

    def to_record(self) -> Record:
        """For the wire."""
        return {
            "version": VERSION,
            "number": self.number,
            "kind": self.kind,
            "vector": pack(self.vector),
            "refused": self.refused,
        }

    @classmethod
    def from_record(cls, record: Record) -> Reply:
        """What `to_record` wrote; anything else is an error in one sentence."""
        try:
            if record["version"] != VERSION:
                raise ValueError("it is of another version of fairsilo")
            if not isinstance(record["number"], int) or not isinstance(record["refused"], str):
                raise ValueError("its fields have wrong types")
            return cls(
                record["number"], record["kind"], unpack(record["vector"]), record["refused"]
            )
        except (KeyError, TypeError, ValueError, FairSiloError) as error:
            raise FairSiloError(f"the answer cannot be read ({error})") from None


def checked(reply: Reply, ask: Ask, length: int) -> Floats:
    """The vector of an answer that fits its question; else one sentence that says what is wrong."""
    if reply.refused:
        raise FairSiloError(f"refused: {reply.refused}")
    if reply.number != ask.number or reply.kind != ask.kind:
        raise FairSiloError(
            f"answered question {reply.number} ({reply.kind}) instead of {ask.number} ({ask.kind})"
        )
    if reply.vector.shape != (length,):
        raise FairSiloError(f"sent {reply.vector.size:,} numbers instead of {length:,}")
    if not np.isfinite(reply.vector).all():
        raise FairSiloError("sent a number that is not finite")
    return reply.vector


def pack(values: Floats) -> bytes:
    """float64, little-endian."""
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def unpack(content: Any) -> Floats:
    """The numbers that `pack` wrote."""
    if not isinstance(content, bytes) or len(content) % 8:
        raise FairSiloError("a vector is not made of 8-byte numbers")
    return np.frombuffer(content, dtype="<f8").astype(np.float64)


def pack_parcels(parcels: Mapping[str, bytes]) -> bytes:
    """Bytes by name, as one piece."""
    return json.dumps({k: base64.b64encode(v).decode() for k, v in parcels.items()}).encode()


def unpack_parcels(content: Any) -> dict[str, bytes]:
    """What `pack_parcels` wrote."""
    try:
        # Of a number, `bytes` would make as many zeros.
        if not isinstance(content, bytes):
            raise TypeError
        texts = json.loads(content)
        return {str(k): base64.b64decode(v, validate=True) for k, v in texts.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FairSiloError("a parcel of the secure aggregation cannot be read") from None
