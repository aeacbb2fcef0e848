"""Sums over silos: asked for, checked, added. In the clear here; `secure` adds behind masks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.network.journal import Journal
from fairsilo.network.transport import Fault, Traffic, Transport
from fairsilo.network.wire import Ask, Reply, checked

LOOK = 0.5
"""Seconds between two looks whether a lost silo is back."""


@dataclass(frozen=True, eq=False)
class Collected:
    """The sum over the silos that answered, and what went wrong with the others."""

    vector: Floats
    silos: tuple[str, ...]
    faults: dict[str, Fault]
    parts: dict[str, Floats] = field(default_factory=dict)
    """What each silo sent, where the server sees it."""
    paid: Sequence[Release] | None = None
    """At a witness: what the server had paid for when it had this sum."""


@dataclass
class Patience:
    """How long lost silos are waited for before a question goes on without them."""

    seconds: float = 0.0
    say: Callable[[dict[str, Any]], None] = lambda event: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    since: float | None = None
    """When the first loss of the question at work was noticed."""
    waited: dict[str, float] = field(default_factory=dict)
    """The silos that came back within this question, and after how many seconds."""

    def begin(self) -> None:
        """Another question."""
        self.since, self.waited = None, {}

    def until_back(self, post: Transport, faults: Mapping[str, Fault]) -> bool:
        """Wait for the silos that are gone; whether to ask again.

        Not where a silo did answer, wrongly: it would do so again.
        """
        gone = {name: fault.why for name, fault in faults.items() if fault.gone}
        if not gone or len(gone) < len(faults) or not self.seconds:
            return False
        if self.since is None:
            self.since = self.clock()
        left = self.since + self.seconds - self.clock()
        if left <= 0:
            return False
        self.say({"event": "missing", "silos": gone, "seconds": left})
        while not gone.keys() <= set(post.present()):
            if self.clock() - self.since >= self.seconds:
                return False
            self.sleep(LOOK)
        after = self.clock() - self.since
        self.waited |= dict.fromkeys(gone, after)
        self.say({"event": "back", "silos": list(gone), "seconds": after})
        return True


class Aggregate(Protocol):
    """Answers a question with a sum over silos."""

    secure: bool
    traffic: Traffic
    patience: Patience
    replays: bool
    """Whether sums come out of transcripts: nobody is asked."""

    def declare(self, declared: dict[str, Any], journal: Journal) -> None:
        """What the server says of a training to its witnesses, before the first question."""

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """Ask the silos for vectors of the given length and add them."""


class Plain:
    """Every silo's vector travels as it is (inside TLS), and the server adds them."""

    secure = replays = False

    def __init__(self, post: Transport, timeout: float, patience: Patience | None = None) -> None:
        self.post, self.timeout, self.traffic = post, timeout, post.traffic
        self.patience = patience or Patience()

    def declare(self, declared: dict[str, Any], journal: Journal) -> None:
        """There are no witnesses of sums in the clear."""

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """One exchange, another with those who were lost and came back; a vector that does not fit
        counts as a fault and is left out."""
        self.patience.begin()
        parts, faults = self._ask(ask, silos, length)
        while faults and self.patience.until_back(self.post, faults):
            more, faults = self._ask(ask, list(faults), length)
            parts |= more
        parts = {name: parts[name] for name in silos if name in parts}
        return Collected(sum(parts.values(), np.zeros(length)), tuple(parts), faults, parts)

    def _ask(
        self, ask: Ask, silos: Sequence[str], length: int
    ) -> tuple[dict[str, Floats], dict[str, Fault]]:
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
        return parts, faults
