"""The server's side of secure aggregation: it relays messages and learns one sum per round."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from fairsilo.arrays import Floats
from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.bundle import check_range, opened
from fairsilo.secagg.errors import ProtocolError, RepeatRound
from fairsilo.secagg.ring import DEFAULT_BOUND, Words, exponents
from fairsilo.secagg.survivors import digest_of
from fairsilo.secagg.transcript import Transcript
from fairsilo.secagg.unmask import read_reveal


@dataclass
class Round:
    """The open round: the messages received so far."""

    number: int
    size: int
    bound: ArrayLike
    question: bytes
    vectors: dict[str, Words] = field(default_factory=dict)
    survivors: list[str] | None = None
    confirmations: dict[str, bytes] = field(default_factory=dict)
    reveals: dict[str, bytes] = field(default_factory=dict)


class ServerSession:
    """One run at the server. It holds no secrets, and losing its state is harmless."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._clear(0, -1)
        self.transcript: Transcript | None = None
        """All that opened the last sum, for those who check it."""

    def _clear(self, first: int, last: int) -> None:
        self._next = first  # the next round to open
        self._rounds = (first, last)  # of the current set-up
        self._bundles: dict[str, bytes] = {}
        self._advertised: list[str] = []  # fixed by `bundles`
        self._letters: dict[str, dict[str, bytes]] = {}  # by sender
        self._roster: list[str] = []  # fixed by the first `open_round`
        self._delivered: set[str] = set()
        self._round: Round | None = None

    def begin_setup(self, rounds: int = 20) -> tuple[int, int]:
        """First and last round of a new set-up; the remaining rounds of the old one are dropped."""
        first = max(self._next, self._rounds[1] + 1)
        check_range(first, first + rounds - 1)
        self._clear(first, first + rounds - 1)
        return self._rounds

    def add_bundle(self, silo: str, bundle: bytes) -> bool:
        """Accept a silo's signed keys; False if `bundles` has already been called."""
        opened(self.agreement, silo, self._rounds, bundle)
        if self._advertised:
            return False
        self._bundles[silo] = bytes(bundle)
        return True

    def bundles(self) -> dict[str, bytes]:
        """All silos' signed keys, for `SiloSession.share` of every silo in them."""
        self._advertised = self._advertised or self._enough(self._bundles, "sent keys")
        return {silo: self._bundles[silo] for silo in self._advertised}

    def add_letters(self, silo: str, letters: Mapping[str, bytes]) -> bool:
        """Accept a silo's letters to the others; False if the roster is already fixed."""
        if not self._advertised or {*letters, silo} != set(self._advertised) or silo in letters:
            raise ProtocolError(f"The shares of silo {silo} are not for the silos of this set-up.")
        if self._roster:
            return False
        self._letters[silo] = {name: bytes(letter) for name, letter in letters.items()}
        return True

    def roster(self) -> list[str]:
        """The silos that can take part in the rounds of this set-up; fixed from now on."""
        self._roster = self._roster or self._enough(self._letters, "sent shares")
        return list(self._roster)

    def letters_for(self, silo: str) -> dict[str, bytes]:
        """The others' letters to a silo of the roster; empty once it has answered a round."""
        roster = self.roster()
        if silo in self._delivered:
            return {}
        return {name: self._letters[name][silo] for name in roster if name != silo}

    def rounds_left(self) -> int:
        """How many more rounds this set-up can open."""
        return max(0, self._rounds[1] + 1 - self._next)

    def open_round(self, size: int, bound: ArrayLike = DEFAULT_BOUND, question: bytes = b"") -> int:
        """Open a round of vectors of `size` floats; returns its number, abandons an open round."""
        self.roster()
        if not self.rounds_left():
            raise RepeatRound("The keys of this set-up are used up: begin a new set-up.")
        exponents(bound, len(self.agreement.silos), size)
        self._round = Round(self._next, size, bound, question)
        self._next += 1
        return self._round.number

    def add_masked(self, silo: str, round_: int, words: Words) -> bool:
        """Accept a silo's masked vector; False if it is late or repeated, and so ignored."""
        self._check(silo)
        now = self._round
        if now is None or now.number != round_ or now.survivors is not None or silo in now.vectors:
            return False
        array = np.asarray(words)
        if array.dtype != np.uint64 or array.shape != (2 * now.size + 1,):
            raise ProtocolError(
                f"Silo {silo} sent {array.shape} numbers of type {array.dtype} in round {round_} "
                f"instead of {2 * now.size + 1} words."
            )
        now.vectors[silo] = array.copy()
        self._delivered.add(silo)
        return True

    def close_round(self) -> dict[str, bytes]:
        """Fix and return the survivors, the silos whose vectors are in the sum, each with the
        digest of its vector."""
        now = self._opened()
        if now.survivors is None:
            now.survivors = self._enough(now.vectors, f"answered round {now.number}")
        return {silo: digest_of(now.vectors[silo]) for silo in now.survivors}

    def add_confirmation(self, silo: str, round_: int, signature: bytes) -> bool:
        """Accept a survivor's signature on the list; False if it is late."""
        self._check(silo)
        now = self._round
        if now is None or now.number != round_ or silo not in (now.survivors or ()):
            return False
        if not isinstance(signature, bytes):
            raise ProtocolError(f"The signature of silo {silo} is no bytes.")
        now.confirmations[silo] = signature
        return True

    def confirmations(self) -> dict[str, bytes]:
        """The signatures of all survivors, for `SiloSession.reveal`."""
        now = self._opened()
        missing = sorted(set(now.survivors or ()) - set(now.confirmations))
        if missing:
            raise RepeatRound(
                f"{', '.join(missing)} did not sign the survivor list of round {now.number}: "
                "repeat the round without them, or when they are back."
            )
        return dict(now.confirmations)

    def add_reveal(self, silo: str, round_: int, reply: bytes) -> bool:
        """Accept a survivor's shares; False if they are late."""
        self._check(silo)
        now = self._round
        if now is None or now.number != round_ or silo not in (now.survivors or ()):
            return False
        read_reveal(round_, self._roster, now.survivors or [], reply)
        now.reveals[silo] = reply
        return True

    def total(self) -> Floats:
        """The sum over the survivors. Ends the round, also if it raises `RepeatRound`."""
        now = self._opened()
        if now.survivors is None:
            raise ProtocolError(f"Round {now.number} has no survivor list yet.")
        self._round = None
        self.transcript = Transcript(
            self._rounds,
            now.number,
            {silo: self._bundles[silo] for silo in self._roster},
            now.vectors,
            now.confirmations,
            now.reveals,
        )
        return self.transcript.total(self.agreement, now.question, now.bound)

    def _opened(self) -> Round:
        if self._round is None:
            raise ProtocolError("No round is open.")
        return self._round

    def _check(self, silo: str) -> None:
        if silo not in self._roster:
            raise ProtocolError(f"Silo {silo} has no part in this set-up; it may join the next.")

    def _enough(self, silos: Mapping[str, object], did: str) -> list[str]:
        if len(silos) < self.agreement.t:
            raise RepeatRound(
                f"Only {len(silos)} silos {did} and {self.agreement.t} are needed: "
                "repeat with fresh keys."
            )
        return sorted(silos)
