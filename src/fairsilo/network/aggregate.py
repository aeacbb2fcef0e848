"""Sums over silos: asked for, checked, added. In the clear here; `secure` adds behind masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.transport import Fault, Traffic, Transport
from fairsilo.network.wire import Ask, Reply, checked


@dataclass(frozen=True, eq=False)
class Collected:
    """The sum over the silos that answered, and what went wrong with the others."""

    vector: Floats
    silos: tuple[str, ...]
    faults: dict[str, Fault]
    parts: dict[str, Floats] = field(default_factory=dict)
    """What each silo sent, where the server sees it."""


class Aggregate(Protocol):
    """Answers a question with a sum over silos."""

    secure: bool
    traffic: Traffic

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """Ask the silos for vectors of the given length and add them."""


class Plain:
    """Every silo's vector travels as it is (inside TLS), and the server adds them."""

    secure = False

    def __init__(self, post: Transport, timeout: float) -> None:
        self.post, self.timeout, self.traffic = post, timeout, post.traffic

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """One exchange; a vector that does not fit counts as a fault and is left out."""
        letter = ask.to_record()
        answers = self.post.exchange(dict.fromkeys(silos, letter), self.timeout)
        parts: dict[str, Floats] = {}
        faults: dict[str, Fault] = {}
        for name in silos:
            found = answers[name]
            if isinstance(found, Fault):
                faults[name] = found
                continue
            try:
                parts[name] = checked(Reply.from_record(found), ask, length)
            except FairSiloError as error:
                faults[name] = Fault(str(error))
        return Collected(sum(parts.values(), np.zeros(length)), tuple(parts), faults, parts)
