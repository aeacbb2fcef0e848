"""The witnesses as the server sees them: each is told what came of every question, and signs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.account import OF
from fairsilo.network.accounts import Accounts
from fairsilo.network.aggregate import Patience
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.journal import Journal
from fairsilo.network.masked import letter
from fairsilo.network.signed import is_signed
from fairsilo.network.transport import Fault, Transport
from fairsilo.network.wire import Ask, Record, pack_parcels
from fairsilo.network.witness import STEP

TOLD = "told"
"""The folder, in the journal's, of what witnesses were not told yet."""
NUMBER = f"{OF}number"


class Witnesses:
    """Those of the federation file; false where it has none."""

    def __init__(self, post: Transport, agreed: FederationFile, timeout: float) -> None:
        self.post, self.agreed, self.timeout = post, agreed, timeout
        self.declared: dict[str, Any] = {}
        self.accounts = Accounts(())
        self.journal: Journal | None = None

    def __bool__(self) -> bool:
        return bool(self.agreed.witnesses)

    def begin(self, declared: dict[str, Any], journal: Journal) -> None:
        """A training begins, or goes on: what was not told before it was interrupted is on the
        disk, and what was paid for is in the journal."""
        self.journal = journal
        self.declared = {**declared, "paid": _paid(journal)}
        names = [one.name for one in self.agreed.witnesses]
        self.accounts = Accounts(names, journal.folder / TOLD, len(journal.old))

    def tell(self, number: int, told: Record) -> None:
        """Keep what came of a question, to go with the next one."""
        assert self.journal is not None
        self.declared["paid"] = _paid(self.journal)
        self.accounts.put(number, told)

    def signed(self, ask: Ask, patience: Patience) -> Ask:
        """The question with the signatures that the silos demand of it."""
        frame = {"training": ask.training, "declared": json.dumps(self.declared, sort_keys=True)}
        missing = self.accounts.missing
        question = {f"ask.{key}": value for key, value in ask.to_record().items()}
        patience = replace(patience, since=None, waited={})
        signed: dict[str, bytes] = {}
        while True:
            faults: dict[str, Fault] = {}
            waiting = [name for name in self.accounts.have if name not in signed]
            while behind := [n for n in waiting if len(missing(n)) > 1 and n not in faults]:
                letters = {n: letter(STEP, **frame, **self._next(n)) for n in behind}
                self._exchange(letters, faults)
            left = [name for name in waiting if name not in faults]
            letters = {n: letter(STEP, **frame, **question, **self._next(n)) for n in left}
            for name, found in self._exchange(letters, faults).items():
                if is_signed(self.agreed, name, ask, found):
                    signed[name] = found
                else:
                    faults[name] = Fault("refused: its signature is not by its key")
            if len(signed) >= self.agreed.signers:
                return replace(ask, signatures=pack_parcels(signed))
            if not patience.until_back(self.post, faults):
                why = "; ".join(f"witness {name} {one.why}" for name, one in faults.items())
                raise FairSiloError(
                    f"{len(signed)} of {self.agreed.signers} witnesses signed question "
                    f"{ask.number} ({why}): use `resume` when they are back"
                )

    def _next(self, name: str) -> Record:
        """The first thing that a witness was not told; nothing where there is none."""
        missing = self.accounts.missing(name)
        return self.accounts.get(missing[0]) if missing else {}

    def _exchange(
        self, letters: Mapping[str, Record], faults: dict[str, Fault]
    ) -> dict[str, bytes]:
        """What they answered; whoever did was told the first thing that it had not been told."""
        found: dict[str, bytes] = {}
        for name, reply in (self.post.exchange(letters, self.timeout) if letters else {}).items():
            if isinstance(reply, Fault):
                faults[name] = reply
            elif reply.get("refused"):
                faults[name] = Fault(f"refused: {reply['refused']}")
            elif not isinstance(reply.get("content"), bytes):
                faults[name] = Fault("refused: it sent no signature")
            else:
                found[name] = reply["content"]
                if NUMBER in letters[name]:
                    self.accounts.had(name, letters[name][NUMBER])
        return found


def _paid(journal: Journal) -> list[tuple[str, float, int]]:
    """What a private run has asked for so far: name, noise, and how often."""
    return [(one.name, one.multiplier, n) for one, n in Counter(journal.releases).items()]
