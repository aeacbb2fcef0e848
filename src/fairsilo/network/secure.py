"""Sums behind masks, at the server: it carries letters between silos and learns one sum a round.

A silo whose masked vector is missing when a round closes is asked once more, in a new round of the
protocol. If it stays away, a sum of the training is not opened at all: under the weights of all
silos it would be of no use. Under differential privacy sums have no weights, and noise enough
whoever is missing, so they are opened over those who answered. Exact counts of rows are opened
over fewer silos only where that shows no single silo's (`StaticSumGuard`; the silos check it, too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.account import account
from fairsilo.network.aggregate import Collected, Patience
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.journal import Journal
from fairsilo.network.masked import (
    COUNTS,
    agreement_of,
    from_bytes,
    letter,
    opens_counts,
)
from fairsilo.network.silo import AUDIT
from fairsilo.network.transport import Fault, Transport
from fairsilo.network.wire import Ask, Record, unpack_parcels
from fairsilo.network.witnesses import Witnesses
from fairsilo.secagg import ProtocolError, RepeatRound, ServerSession, StaticSumGuard

AHEAD = 48
"""Rounds that one set-up prepares."""


class Secure:
    """Answers questions with sums of which the server sees no summand."""

    secure, replays = True, False

    def __init__(
        self,
        post: Transport,
        agreed: FederationFile,
        run: str,
        timeout: float,
        patience: Patience | None = None,
    ) -> None:
        self.post, self.agreed, self.timeout, self.traffic = post, agreed, timeout, post.traffic
        self.patience = patience or Patience()
        self.session = ServerSession(agreement_of(agreed, run))
        self.guard = StaticSumGuard()
        self.witnesses = Witnesses(post, agreed, timeout)

    def declare(self, declared: dict[str, Any], journal: Journal) -> None:
        """Every witness is told so with every question."""
        self.witnesses.begin(declared, journal)

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """The sum of a question that the witnesses signed, where there are any."""
        if not self.witnesses or ask.purpose == AUDIT:
            return self._collect(ask, silos, length)
        ask = self.witnesses.signed(ask, self.patience)
        collected = self._collect(ask, silos, length)
        opened = not (collected.faults and ask.question.moving and self.agreed.dp is None)
        transcript = self.session.transcript if opened else None
        run = self.session.agreement.run_id
        told = account(ask, run, collected, self.patience.waited, transcript)
        self.witnesses.tell(ask.number, told)
        return collected

    def _collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """Three exchanges; more where a silo missed one of the first two."""
        self.patience.begin()
        fresh, lost = False, dict[str, Fault]()
        while True:
            number, faults = None, dict[str, Fault]()
            asked = [name for name in silos if name not in lost]
            try:
                number = self._attempt(ask, asked, length, fresh, faults)
                if not faults or not self._waits(number, faults):
                    return self._close(ask, number, silos, length, faults, lost)
            except RepeatRound as error:
                if not self._waits(number, faults):
                    if number is None or not self._go_on(asked, faults):
                        raise _too_few(error, lost | faults) from None
                    lost |= faults
                    if ask.question.moving:
                        return self._close(ask, number, silos, length, {}, lost)
            # A node that was started anew has forgotten its keys: everyone makes new ones.
            fresh = True

    def _go_on(self, asked: Sequence[str], faults: dict[str, Fault]) -> bool:
        """Whether to go on without silos that did not sign: a list needs all of its silos."""
        enough = len(asked) - len(faults) >= self.session.agreement.t
        refused = any(map(_refused, faults.values()))
        return bool(faults) and enough and not refused and self.agreed.dp is None

    def _waits(self, number: int | None, faults: dict[str, Fault]) -> bool:
        """Wait for lost silos, if asking again is allowed: under differential privacy every answer
        costs the silos, so nobody is asked twice."""
        spent = number is not None and self.agreed.dp is not None
        return not spent and self.patience.until_back(self.post, faults)

    def _attempt(
        self,
        ask: Ask,
        silos: Sequence[str],
        length: int,
        fresh: bool,
        faults: dict[str, Fault],
    ) -> int:
        """The round that has the silos' vectors; whose are missing is in `faults`.

        Keys come first, where there are none left or `fresh` ones are wanted. Who misses the round
        is asked once more at once.
        """
        if fresh or not self.session.rounds_left():
            self._set_up(ask, silos, faults)
        asked = [name for name in silos if name not in faults]
        number, missing = self._mask(ask, asked, length)
        refused = any(map(_refused, missing.values()))
        if missing and not refused and self.agreed.dp is None:
            if not self.session.rounds_left():
                faults.clear()
                self._set_up(ask, asked, faults)
                asked = [name for name in asked if name not in faults]
            number, missing = self._mask(ask, asked, length)
        faults.update(missing)
        return number

    def _close(
        self,
        ask: Ask,
        number: int,
        silos: Sequence[str],
        length: int,
        faults: dict[str, Fault],
        lost: dict[str, Fault],
    ) -> Collected:
        """Open the sum over those who answered, where that is of use and shows nobody's part.

        `faults` are this round's, to which those are added who do not sign; the `lost` were not
        asked any more.
        """
        gone = lost | faults
        present = tuple(name for name in silos if name not in gone)
        if gone and ask.question.moving and self.agreed.dp is None:
            return Collected(np.zeros(length), present, gone)
        if opens_counts(ask.question) and not self.agreed.recount:
            self._admit(present, gone)
        return Collected(self._open(number, faults), present, gone)

    def _set_up(self, ask: Ask, silos: Sequence[str], faults: dict[str, Fault]) -> None:
        """Fresh keys and shares for the rounds to come: two exchanges."""
        first, last = self.session.begin_setup(AHEAD)
        named = {"fingerprint": ask.fingerprint, "purpose": ask.purpose}
        faults |= self._each(
            dict.fromkeys(silos, letter("advertise", first=first, last=last, **named)),
            lambda name, record: self.session.add_bundle(name, record["content"]),
        )
        bundles = self.session.bundles()
        faults |= self._each(
            dict.fromkeys(bundles, letter("share", parcels=bundles)),
            lambda name, record: self.session.add_letters(name, unpack_parcels(record["content"])),
        )
        self.session.roster()

    def _mask(self, ask: Ask, silos: Sequence[str], length: int) -> tuple[int, dict[str, Fault]]:
        """The question to every silo, its vector behind masks back."""
        number = self.session.open_round(length, question=ask.digest())
        question = {f"ask.{key}": value for key, value in ask.to_record().items()}
        letters = {
            name: letter("masked", round=number, parcels=self.session.letters_for(name), **question)
            for name in silos
        }
        return number, self._each(
            letters,
            lambda name, record: self.session.add_masked(
                name, number, from_bytes(record["content"])
            ),
        )

    def _open(self, number: int, faults: dict[str, Fault]) -> Floats:
        """Close the round and let the survivors open its sum."""
        answers = self.session.close_round()
        letters = dict.fromkeys(answers, letter("confirm", round=number, answers=answers))
        for _ in range(2):
            late = self._each(
                letters,
                lambda name, record: self.session.add_confirmation(name, number, record["content"]),
            )
            letters = {name: letters[name] for name in late}
            if not late or any(map(_refused, late.values())):
                break
        faults |= late
        signed = self.session.confirmations()
        ask = letter("reveal", round=number, answers=answers, parcels=signed)
        # Who signed and then fell silent is in the sum, and may answer the next question.
        late = self._each(
            dict.fromkeys(answers, ask),
            lambda name, record: self.session.add_reveal(name, number, record["content"]),
        )
        try:
            return self.session.total()
        except RepeatRound:
            faults |= late
            raise

    def _admit(self, present: Sequence[str], faults: dict[str, Fault]) -> None:
        """Do not even ask for a sum of counts that the silos would refuse to open."""
        try:
            self.guard.admit(COUNTS, present)
        except ProtocolError:
            told = "; ".join(f"silo {name} {fault.why}" for name, fault in faults.items())
            raise FairSiloError(
                f"{told or 'a silo was lost'}, and counting rows without it would show its counts "
                "to the server, which the federation file does not allow: use `resume` when it is "
                "back"
            ) from None

    def _each(
        self, letters: dict[str, Record], take: Callable[[str, Record], bool]
    ) -> dict[str, Fault]:
        """One exchange; every answer is taken or becomes a fault."""
        faults: dict[str, Fault] = {}
        for name, found in self.post.exchange(letters, self.timeout).items():
            if isinstance(found, Fault):
                faults[name] = found
                continue
            try:
                if found.get("refused"):
                    raise FairSiloError(f"refused: {found['refused']}")
                if found.get("step") != letters[name]["step"]:
                    raise FairSiloError("answered another step of the secure aggregation")
                if not take(name, found):
                    raise FairSiloError("answered too late")
            except (FairSiloError, KeyError, TypeError) as error:
                faults[name] = Fault(str(error))
        return faults


def _too_few(error: RepeatRound, faults: dict[str, Fault]) -> FairSiloError:
    """Why there is no sum. A silo that others refused comes first: theirs follow from its fault."""
    named = sorted(faults.items(), key=lambda one: _refused(one[1]))
    told = "; ".join(f"silo {name} {fault.why}" for name, fault in named[:3])
    told += f" ({len(named) - 3} more)" if len(named) > 3 else ""
    if any(map(_refused, faults.values())):
        return FairSiloError(told)
    return FairSiloError(
        f"{error} {told + ': ' if told else ''}use `resume` when the silos are back"
    )


def _refused(fault: Fault) -> bool:
    """Whether the silo did answer, and said no: asking again would change nothing."""
    return fault.why.startswith("refused")
