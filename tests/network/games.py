"""A lying server, played by hypothesis: the honest server's messages with lies among them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fairsilo.errors import FairSiloError
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record, pack_parcels, unpack_parcels
from tests.network.silos import Town, TownTransport, restart_witnesses, train

SILOS = 4
EXCHANGES = 24
"""Of an honest game: two to set up, then three a question and one with the witness."""
LIES = (
    "theta", "one-theta", "totals", "encoder", "history", "order", "kind", "signature",
    "survivors", "exchanged", "roster", "keys", "replay", "twice", "round", "lost", "account",
    "number", "resume", "forget",
)  # fmt: skip
Lie = tuple[str, int, int]
"""What is done, at which exchange, to which silo."""

lies: st.SearchStrategy[list[Lie]] = st.lists(
    st.tuples(st.sampled_from(LIES), st.integers(1, EXCHANGES), st.integers(0, SILOS - 1)),
    min_size=1,
    max_size=3,
)


class Resume(Exception):
    """The server ends its run here, and goes on in another."""


@dataclass
class LyingPost(TownTransport):
    """Delivers lies; notes what every silo gave away."""

    lies: list[Lie] = field(default_factory=list)
    past: list[dict[str, Record]] = field(default_factory=list)
    answered: list[tuple[str, Ask]] = field(default_factory=list)
    """Every question to which a silo's masked vector left it."""
    opened: list[tuple[str, Ask, frozenset[str]]] = field(default_factory=list)
    """Every question for which a silo showed shares, and over whom."""
    open: dict[str, Ask] = field(default_factory=dict)

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        number = self.traffic.exchanges + 1
        now = [(what, who) for what, when, who in self.lies if when == number]
        told = {name: dict(record) for name, record in letters.items()}
        self.past.append({name: dict(record) for name, record in letters.items()})
        gone: list[str] = []
        for what, who in now:
            if what == "resume":
                raise Resume
            if what == "lost":
                gone.append(self.town.agreed.names[who])
            elif what == "twice":
                super().exchange(told, timeout)
            else:
                self._lie(what, self.town.agreed.names[who], told)
        found = super().exchange({n: one for n, one in told.items() if n not in gone}, timeout)
        for name, record in told.items():
            if name not in gone:
                self._note(name, record, found[name])
        return found | {name: Fault("is gone", gone=True) for name in gone if name in told}

    def _note(self, name: str, record: Record, reply: Record | Fault) -> None:
        if isinstance(reply, Fault) or not reply.get("content"):
            return
        if record.get("step") == "masked":
            own = {k.removeprefix("ask."): v for k, v in record.items() if k.startswith("ask.")}
            self.open[name] = Ask.from_record(own)
            self.answered.append((name, self.open[name]))
        if record.get("step") == "reveal":
            whom = frozenset(unpack_parcels(record["answers"]))
            self.opened.append((name, self.open[name], whom))

    def _lie(self, what: str, who: str, told: dict[str, Record]) -> None:
        if what == "replay" and len(self.past) > 1:
            earlier = self.past[len(self.past) // 2]
            told.update({name: dict(earlier[name]) for name in told if name in earlier})
            return
        whom = [who] if what in ("one-theta", "roster", "keys", "exchanged") else list(told)
        for name in whom:
            if name in told:
                _change(what, who, told[name])


def _floats(record: Record, key: str, change: Any) -> None:
    if record.get(key):
        record[key] = change(np.frombuffer(record[key], "<f8")).astype("<f8").tobytes()


def _change(what: str, who: str, record: Record) -> None:
    """One lie in one record, where it has such a field."""
    if what in NUMBERS:
        key, change = NUMBERS[what]
        _floats(record, key, change)
    elif what in ("survivors", "exchanged"):
        _list(what, who, record)
    elif what in ("roster", "keys") and record.get("step") in ("masked", "share"):
        parcels = unpack_parcels(record["parcels"])
        record["parcels"] = pack_parcels(dict(list(parcels.items())[1:]))
    elif what == "kind" and "ask.kind" in record:
        for key in [key for key in record if key.startswith("ask.question.")]:
            del record[key]
        record |= {"ask.kind": "counts", "ask.question.rest": False}
    elif what == "account":
        for key in [key for key in record if key.startswith("account.vector ")][:1]:
            record[key] = bytes(len(record[key]))
    elif what in FIELDS and record.get(FIELDS[what][0]):
        key, change = FIELDS[what]
        record[key] = change(record[key])


NUMBERS: dict[str, tuple[str, Any]] = {
    "theta": ("ask.question.theta", lambda theta: theta + 0.01),
    "one-theta": ("ask.question.theta", lambda theta: theta + 0.01),
    "totals": ("ask.question.totals", lambda totals: totals * 2),
    "encoder": ("ask.scalings", lambda scalings: scalings * 1.5),
}
FIELDS: dict[str, tuple[str, Any]] = {
    "history": ("ask.history", lambda history: "0" * 64),
    "number": ("ask.number", lambda number: number + 1),
    "order": ("ask.question.order", lambda order: "first"),
    "signature": ("ask.signatures", lambda signed: pack_parcels({"witness0": bytes(96)})),
    "round": ("round", lambda number: number + 1),
}


def _list(what: str, who: str, record: Record) -> None:
    if "answers" in record:
        answers = unpack_parcels(record["answers"])
        if what == "survivors":
            answers.pop(who, None)
        else:
            answers = dict.fromkeys(answers, bytes(32))
        record["answers"] = pack_parcels(answers)


def clean(town: Town) -> None:
    """Silos and witness as they were before any run."""
    restart_witnesses()
    for name in (*town.agreed.names, *(one.name for one in town.agreed.witnesses)):
        for path in ("ledger.json", "left.jsonl"):
            (town.folder / name / path).unlink(missing_ok=True)
        shutil.rmtree(town.folder / name / "witnessed", ignore_errors=True)


def play(town: Town, told: list[Lie], journal: Path) -> LyingPost:
    """One game, to its end; a run that was interrupted is resumed once."""
    clean(town)
    shutil.rmtree(journal, ignore_errors=True)
    post = LyingPost(town, lies=told)
    try:
        train(town, post, journal)
    except Resume:
        again = LyingPost(town, run="2", lies=[one for one in told if one[0] != "resume"])
        if any(what == "forget" for what, _, _ in told):
            for path in sorted(journal.glob("*.safetensors"))[-1:]:
                path.unlink()
        again.answered, again.opened, post = post.answered, post.opened, again
        with contextlib.suppress(FairSiloError):
            train(town, post, journal, resume=True)
    except FairSiloError:
        pass
    return post
