"""A witness: it replays the training and signs the question that follows, and no other.

    witness   what came of the last question and, with it, the next one
              -> the witness's signature on the next question

It has a key and no rows. It sees the sums of every question, as the server does, and no silo's
part of them. What it needs to go on after a restart is on its disk, before a signature leaves:
the sums, in a journal like the server's, and what it signed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.network.account import OF, asked_of, heard
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.follows import difference
from fairsilo.network.journal import Journal
from fairsilo.network.ledger import write
from fairsilo.network.masked import letter
from fairsilo.network.replay import Replay, journal_of
from fairsilo.network.settings import Settings
from fairsilo.network.signed import signature
from fairsilo.network.wire import Ask, Memory, Record, Refusal
from fairsilo.question import QUESTIONS
from fairsilo.secagg import load_node_key

STEP = "witness"
STATE, JOURNAL = "state.json", "journal"
FRAME = frozenset(one.name for one in fields(Ask))
"""What no solver decides of a question."""
TRIES = 8
"""Sums beside the last one that are tried. At a tie every other one decides otherwise."""
AT_ONCE = 8
"""Trainings whose replays wait in memory."""
MOST = 1_000_000
"""Releases of a training that a server may name."""


@dataclass
class Case:
    """One training as a witness follows it."""

    folder: Path
    agreed: FederationFile
    replay: Replay
    state: dict[str, Any]
    tried: set[int] = field(default_factory=set)
    """Questions that followed from no sum beside the last one: tried once, as it takes long."""

    def hear(self, record: Record, paid: list[Release] | None) -> None:
        """Take the sum of the last question, unless it is known already.

        `paid`: what the server had paid for then, where it tells of its last question.
        """
        number, expected = int(record[f"{OF}number"]), self.replay.expected()
        if number < expected.number:
            return
        if number > expected.number:
            raise Refusal(
                f"question {expected.number} follows here and the server tells of {number}: this "
                "witness missed a part of the training, and can sign the next one"
            )
        # First what the silos signed: a made-up account must not move the replay at a tie.
        asked = asked_of(record)
        found, waited = heard(self.agreed, asked, asked.digest(), record)
        # Others may have signed it while this witness was away; and what it signed itself must
        # still be what follows, or sums at one point would count as sums at another. A sum that
        # was not opened carries no silo's signature.
        self._following(asked, ties=bool(found.vector.size))
        journal = self.replay.journal
        if paid is not None:
            paid = _no_less(paid, journal.releases)
            journal.note(paid)
        self.state["paid"][str(number)] = len(journal.releases)
        self.save()
        self.replay.feed(replace(found, paid=paid), waited)
        # The next question is there once the sum is on the disk.
        self.replay.expected()

    def sign(self, ask: Ask, settings: Settings) -> bytes:
        """The signature on a question that follows."""
        self.state["signed"][str(ask.number)] = self._following(ask)
        self.save()
        if settings.key is None:
            raise Refusal("the witness's settings name no key to sign with")
        return signature(ask, load_node_key(settings.key))

    def _following(self, ask: Ask, ties: bool = True) -> str:
        """The digest of a question that follows; a refusal where it does not.

        `ties`: whether it may be the one that follows at a tie.
        """
        digest = ask.digest().hex()
        other = self.state["signed"].get(str(ask.number), digest) != digest
        differs = difference(self.agreed, self.replay.expected(), ask)
        if ties and differs and differs not in FRAME and not other and self._at_tie(ask):
            differs = ""
        if differs or other:
            raise Refusal(
                f"question {ask.number} ({ask.kind}) is not the one that follows from the sums "
                f"({differs or 'another one was signed'} differs): nobody should answer it"
            )
        return digest

    def _at_tie(self, ask: Ask) -> bool:
        """Go on as the server did, where its solver decided otherwise by rounding alone.

        Such a question follows from a sum that differs from the last one in its last digits:
        what a solver compared lies that close to its threshold. Both ways are then as good. Under
        noise every step is accepted, and nothing hangs by a digit.
        """
        if self.agreed.dp is not None or ask.number in self.tried:
            return False
        kept, last = self.replay.journal.reread(), str(ask.number - 1)
        if not kept.old or not QUESTIONS[kept.old[-1].kind].moving:
            return False
        for number in range(1, TRIES + 1):
            ties = {**self.state["ties"], last: number}
            other = Replay(self.agreed, _tied(copy(kept), ties), self.replay.baseline)
            with suppress(FairSiloError):
                if not difference(self.agreed, other.expected(), ask):
                    self.replay.end()
                    self.replay, self.state["ties"] = other, ties
                    return True
            other.end()
        self.tried.add(ask.number)
        return False

    def save(self) -> None:
        """Keep what must not be forgotten."""
        write(self.folder / STATE, self.state)


_CASES: dict[Path, Case] = {}
"""The trainings that this process follows, the one asked for last at the end."""


def witnessed(
    settings: Settings, agreed: FederationFile, record: Record, memory: Memory, run: str
) -> Record:
    """The answer of a witness to one record."""
    if record.get("step") != STEP:
        raise Refusal("a witness signs questions and answers none")
    if settings.name not in {one.name for one in agreed.witnesses}:
        raise Refusal(f"the federation file has no witness {settings.name!r}")
    own = {k.removeprefix("ask."): one for k, one in record.items() if k.startswith("ask.")}
    ask = Ask.from_record(own) if own else None
    try:
        training, declared = str(record["training"]), json.loads(record["declared"])
        paid = _released(declared.pop("paid"), agreed.dp is not None)
        if set(declared) != {"baseline", "start"}:
            raise ValueError("its declaration has other fields")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise Refusal("the server did not declare the training") from None
    if memory.setdefault("training", training) != training:
        # Each has a folder, and a thread.
        raise Refusal("the server named another training within a run")
    if declared["start"]:
        raise Refusal(
            "under witnesses a training starts where the federation file says: leave `start_from` "
            "out"
        )
    told = f"{OF}number" in record
    case = _case(settings, agreed, run, training, declared, paid, ask, told)
    try:
        if told:
            case.hear(record, None if ask is None else paid)
        content = b"" if ask is None else case.sign(ask, settings)
    except Refusal:
        raise
    except FairSiloError as error:
        # Of the replay, which knows sums and no rows.
        raise Refusal(str(error)) from None
    return letter(STEP, content=content, refused="")


def _no_less(paid: list[Release], counted: list[Release]) -> list[Release]:
    """What was paid for, what this witness counted first; refuse a server that forgets that."""
    if Counter(counted) - Counter(paid):
        raise Refusal("the server says that it paid for less than this witness saw it ask")
    return [*counted, *(Counter(paid) - Counter(counted)).elements()]


def _released(paid: list[tuple[str, float, int]], private: bool) -> list[Release]:
    """What the server says that earlier runs of the training asked for."""
    found: list[Release] = []
    for name, multiplier, times in paid if private else ():
        one = Release(str(name), float(multiplier))
        if type(times) is not int or times <= 0 or not 0 < one.multiplier < math.inf:
            raise ValueError("it paid for what is no release")
        if len(found) + times > MOST:
            raise ValueError("it paid for more than any training asks")
        found += [one] * times
    return found


def _case(
    settings: Settings,
    agreed: FederationFile,
    run: str,
    training: str,
    declared: dict[str, Any],
    paid: list[Release],
    ask: Ask | None,
    told: bool,
) -> Case:
    """The training, in memory or read back; in another run of Flower's, where that goes on."""
    known = hashlib.sha256(f"{settings.name} {training}".encode()).hexdigest()[:32]
    folder = settings.witnessed / known
    state = _read(folder, agreed, declared)
    case = _CASES.pop(folder, None)
    # The first question in another run; sums that a witness missed may come before it.
    again = ask is not None and state["run"] != run
    if case is not None and not again and not case.replay.failed:
        _CASES[folder] = case
        return case
    if case is not None:
        case.replay.end()
    if again and ask is not None:
        _go_back(folder, state, ask, told, agreed.dp is not None)
        state["run"] = run
    journal = _tied(journal_of(folder / JOURNAL, agreed, training), state["ties"])
    here = str(len(journal.old))
    if again and ask is not None and len(journal.old) == ask.number - 1:
        # Asked in another run the question at work is paid for again, whatever is told with it.
        paid = _no_less(paid, journal.releases)
        journal.note(paid)
    else:
        # The question at work is paid for when it is replayed; until then it stays on the disk.
        paid = journal.releases = journal.releases[: state["paid"].get(here, 0)]
    state["paid"][here] = len(paid)
    replay = Replay(agreed, journal, bool(declared["baseline"]))
    _CASES[folder] = case = Case(folder, agreed, replay, state)
    while len(_CASES) > AT_ONCE:
        # What it needs is on its disk.
        _CASES.pop(next(iter(_CASES))).replay.end()
    case.save()
    return case


def _tied(journal: Journal, ties: dict[str, int]) -> Journal:
    """The journal with the ties at which the server's way was taken."""
    journal.ties = {int(number): one for number, one in ties.items()}
    return journal


def _read(folder: Path, agreed: FederationFile, declared: dict[str, Any]) -> dict[str, Any]:
    path = folder / STATE
    if not path.exists():
        about = [agreed.fingerprint, declared]
        return {"run": "", "about": about, "signed": {}, "paid": {}, "ties": {}}
    try:
        state: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise FairSiloError(f"{path} is damaged: start the training anew") from None
    if state["about"] != [agreed.fingerprint, declared]:
        raise Refusal("the server declared this training otherwise before")
    return {"ties": {}, **state}


def _go_back(folder: Path, state: dict[str, Any], ask: Ask, told: bool, noisy: bool) -> None:
    """A run that goes on may have lost its last sum, and asks for it again; `told`: it tells of
    the one before.

    What was signed stays signed: exact sums are the same again, and so is what follows from them.
    With noise they are not, and silos pay for them.
    """
    kept = sorted((folder / JOURNAL).glob("*.safetensors"))
    answered = ask.number - 1
    if not -told <= len(kept) - answered <= 1:
        raise Refusal(
            f"this witness saw {len(kept)} questions of the training and the server asks question "
            f"{ask.number}: start the training anew"
        )
    if kept[answered:]:
        # Where this ends in a refusal, whatever is asked next is asked in another run.
        write(folder / STATE, {**state, "run": ""})
    for path in kept[answered:]:
        path.unlink()
    if noisy:
        signed = state["signed"].items()
        state["signed"] = {n: one for n, one in signed if int(n) <= answered + 1}
