"""Sums behind masks, at the server: it carries letters between silos and learns one sum a round.

A silo whose masked vector is missing when a round closes is asked once more, in a new round of the
protocol. If it stays away, a sum of the training is not opened at all: under the weights of all
silos it would be of no use. Under differential privacy sums have no weights, and noise enough
whoever is missing, so they are opened over those who answered. Exact counts of rows are opened
over fewer silos only where that shows no single silo's (`StaticSumGuard`; the silos check it, too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Collected
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.masked import (
    COUNTS,
    agreement_of,
    from_bytes,
    letter,
    opens_counts,
    unpack_parcels,
)
from fairsilo.network.transport import Fault, Transport
from fairsilo.network.wire import Ask, Record
from fairsilo.secagg import ProtocolError, RepeatRound, ServerSession, StaticSumGuard

AHEAD = 48
"""Rounds that one set-up prepares."""


class Secure:
    """Answers questions with sums of which the server sees no summand."""

    secure = True

    def __init__(self, post: Transport, agreed: FederationFile, run: str, timeout: float) -> None:
        self.post, self.agreed, self.timeout, self.traffic = post, agreed, timeout, post.traffic
        self.session = ServerSession.start(agreement_of(agreed, run))
        self.guard = StaticSumGuard()

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """Two exchanges, three with signed survivors; one more where a silo missed the first."""
        faults: dict[str, Fault] = {}
        if not self.session.rounds_left():
            faults = self._set_up(ask, silos)
        asked = [name for name in silos if name not in faults]
        number, missing = self._mask(ask, asked, length)
        refused = any(map(_refused, missing.values()))
        # Under differential privacy every answer costs the silos, so nobody is asked twice.
        if missing and not refused and self.agreed.dp is None:
            if not self.session.rounds_left():
                faults = self._set_up(ask, asked)
                asked = [name for name in asked if name not in faults]
            number, missing = self._mask(ask, asked, length)
        faults.update(missing)
        present = tuple(name for name in silos if name not in faults)
        if faults and ask.question.moving and self.agreed.dp is None:
            return Collected(np.zeros(length), present, faults)
        if opens_counts(ask.question) and not self.agreed.recount:
            self._admit(present, faults)
        return self._open(number, present, faults)

    def _set_up(self, ask: Ask, silos: Sequence[str]) -> dict[str, Fault]:
        """Fresh keys and shares for the rounds to come: two exchanges."""
        first, last = self.session.begin_setup(AHEAD)
        named = {"fingerprint": ask.fingerprint, "purpose": ask.purpose}
        faults = self._each(
            dict.fromkeys(silos, letter("advertise", first=first, last=last, **named)),
            lambda name, record: self.session.add_bundle(name, record["content"]),
        )
        bundles = self.session.bundles()
        faults |= self._each(
            dict.fromkeys(bundles, letter("share", parcels=bundles)),
            lambda name, record: self.session.add_letters(name, unpack_parcels(record["content"])),
        )
        self.session.roster()
        return faults

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

    def _open(self, number: int, present: tuple[str, ...], faults: dict[str, Fault]) -> Collected:
        """Close the round and let the survivors open its sum."""
        late: dict[str, Fault] = {}
        try:
            survivors = self.session.close_round()
            signed = self._confirm(number, survivors)
            ask = letter("reveal", round=number, survivors=list(survivors), parcels=signed)
            # Who masked and then fell silent is in the sum, and may answer the next question.
            late = self._each(
                dict.fromkeys(survivors, ask),
                lambda name, record: self.session.add_reveal(name, number, record["content"]),
            )
            total = self.session.total()
        except RepeatRound as error:
            refused = [(n, f.why) for n, f in {**faults, **late}.items() if _refused(f)]
            if refused:
                name, why = refused[0]
                more = f" ({len(refused) - 1} more refused)" if len(refused) > 1 else ""
                raise FairSiloError(f"silo {name} {why}{more}") from None
            told = "; ".join(f"{name} {fault.why}" for name, fault in faults.items())
            raise FairSiloError(
                f"{error} {told + ': ' if told else ''}use `resume` when the silos are back"
            ) from None
        return Collected(total, present, faults)

    def _confirm(self, number: int, survivors: list[str]) -> dict[str, bytes]:
        """The survivors' signatures on their list, where the federation file wants them."""
        if not self.agreed.signed_survivors:
            return {}
        self._each(
            dict.fromkeys(survivors, letter("confirm", round=number, survivors=list(survivors))),
            lambda name, record: self.session.add_confirmation(name, number, record["content"]),
        )
        return self.session.confirmations()

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


def _refused(fault: Fault) -> bool:
    """Whether the silo did answer, and said no: asking again would change nothing."""
    return fault.why.startswith("refused")
