"""A federation in memory. Every call of a silo restores and saves its state, as processes do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import ArrayLike, NDArray

from fairsilo.arrays import Floats
from fairsilo.secagg import Agreement, ServerSession, SiloSession
from fairsilo.secagg.shamir import SHARE_BYTES
from fairsilo.secagg.survivors import digest_of

T = TypeVar("T")
P = ParamSpec("P")


@cache
def node_key(number: int) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def public_line(number: int) -> str:
    return (
        node_key(number)
        .public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
    )


def names(count: int) -> list[str]:
    return [f"silo {number:02d}" for number in range(count)]


def agreement(count: int, threshold: int | None = None, run_id: str = "run 1") -> Agreement:
    lines = {name: public_line(number) for number, name in enumerate(names(count))}
    return Agreement("federation", run_id, lines, threshold)


class Federation:
    """Silos by name and their server; `view` is all that the server ever receives."""

    def __init__(self, agreed: Agreement) -> None:
        self.agreement = agreed
        self.names = sorted(agreed.silos)
        self.keys = {name: node_key(number) for number, name in enumerate(self.names)}
        self.states = {name: SiloSession(agreed, name).to_bytes() for name in self.names}
        self.server = ServerSession(agreed)

    def ask(
        self,
        name: str,
        question: Callable[Concatenate[SiloSession, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        session = SiloSession.from_bytes(self.states[name])
        try:
            return question(session, *args, **kwargs)
        finally:
            self.states[name] = session.to_bytes()

    def set_up(
        self,
        rounds: int = 2,
        keys: Iterable[str] | None = None,
        letters: Iterable[str] | None = None,
    ) -> None:
        """A set-up in which only `keys` advertise and only `letters` of them share."""
        first, last = self.server.begin_setup(rounds)
        for name in self.names if keys is None else keys:
            key = self.keys[name]
            bundle = self.ask(name, SiloSession.advertise, first, last, key)
            assert self.server.add_bundle(name, bundle)
        bundles = self.server.bundles()
        for name in bundles if letters is None else letters:
            written = self.ask(name, SiloSession.share, bundles)
            assert self.server.add_letters(name, written)

    def masked(self, name: str, round_: int, vector: ArrayLike) -> NDArray[np.uint64]:
        self.ask(name, SiloSession.receive, self.server.letters_for(name))
        return self.ask(name, SiloSession.masked, round_, vector)

    def collect(self, vectors: Mapping[str, ArrayLike]) -> int:
        """Open a round and collect these silos' masked vectors."""
        round_ = self.server.open_round(np.size(next(iter(vectors.values()))))
        for name, vector in vectors.items():
            assert self.server.add_masked(name, round_, self.masked(name, round_, vector))
        return round_

    def answers(self, silos: Iterable[str]) -> dict[str, bytes]:
        """A survivor list of these silos, in the open round."""
        now = self.server._round
        sent = {} if now is None else now.vectors
        return {name: digest_of(sent[name]) if name in sent else b"" for name in silos}

    def confirm(self, name: str, round_: int, silos: Iterable[str]) -> bytes:
        """A silo's signature on a list."""
        return self.ask(name, SiloSession.confirm, round_, self.answers(silos), self.keys[name])

    def signed(self, round_: int, silos: Sequence[str]) -> dict[str, bytes]:
        """The signatures of all silos of a list on it."""
        return {name: self.confirm(name, round_, silos) for name in silos}

    def reveal(
        self, name: str, round_: int, silos: Sequence[str], signatures: Mapping[str, bytes]
    ) -> bytes:
        """What a silo shows for a list."""
        return self.ask(name, SiloSession.reveal, round_, self.answers(silos), signatures)

    def unmask(self, round_: int, answer: Sequence[str] | None = None) -> Floats:
        """Close the round; only the silos of `answer` reveal shares."""
        survivors = list(self.server.close_round())
        for name, signature in self.signed(round_, survivors).items():
            assert self.server.add_confirmation(name, round_, signature)
        for name in survivors if answer is None else answer:
            reply = self.reveal(name, round_, survivors, self.server.confirmations())
            assert self.server.add_reveal(name, round_, reply)
        return self.server.total()

    def saved(self, name: str) -> dict[str, Any]:
        """The fields of a silo's saved state."""
        fields = json.loads(self.states[name])["fields"]
        assert isinstance(fields, dict)
        return fields

    def material(self, name: str) -> dict[str, Any]:
        """The secret part of a silo's saved state."""
        fields = self.saved(name)["material"]
        assert isinstance(fields, dict)
        return fields

    def secrets(self, name: str) -> dict[str, bytes]:
        """By round: seed and private mask key."""
        return {r: base64.b64decode(t) for r, t in self.material(name)["secrets"].items()}

    @staticmethod
    def pair(text: str) -> tuple[bytes, bytes]:
        """The two shares in a saved state: of the seed and of the mask key."""
        both = base64.b64decode(text)
        return both[:SHARE_BYTES], both[SHARE_BYTES:]
