"""The witnesses as the server sees them: each is told what came of every question, and signs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Patience
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.masked import letter
from fairsilo.network.signed import is_signed
from fairsilo.network.transport import Fault, Transport
from fairsilo.network.wire import Ask, Record, pack_parcels
from fairsilo.network.witness import STEP


class Witnesses:
    """Those of the federation file; false where it has none."""

    def __init__(self, post: Transport, agreed: FederationFile, timeout: float) -> None:
        self.post, self.agreed, self.timeout = post, agreed, timeout
        self.untold: dict[str, list[Record]] = {one.name: [] for one in agreed.witnesses}
        """By witness, what it has not been told yet."""

    def __bool__(self) -> bool:
        return bool(self.untold)

    def tell(self, told: Record) -> None:
        """Keep what came of a question, to go with the next one."""
        for waiting in self.untold.values():
            waiting.append(told)

    def signed(self, ask: Ask, declared: Mapping[str, Any], patience: Patience) -> Ask:
        """The question with the signatures that the silos demand of it."""
        frame = {"training": ask.training, "declared": json.dumps(declared, sort_keys=True)}
        question = {f"ask.{key}": value for key, value in ask.to_record().items()}
        patience = replace(patience, since=None, waited={})
        signed: dict[str, bytes] = {}
        while True:
            faults: dict[str, Fault] = {}
            waiting = [name for name in self.untold if name not in signed]
            while behind := [n for n in waiting if len(self.untold[n]) > 1 and n not in faults]:
                self._exchange(
                    {n: letter(STEP, **frame, **self.untold[n][0]) for n in behind}, faults
                )
            left = [name for name in waiting if name not in faults]
            last: dict[str, Record] = {n: next(iter(self.untold[n]), {}) for n in left}
            letters = {n: letter(STEP, **frame, **question, **last[n]) for n in left}
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
                del self.untold[name][:1]
        return found
