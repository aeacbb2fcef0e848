"""A training, computed once more from the sums that opened it: the questions that an honest server
asks, one after the other.

A solver is a pure function of the sums, and everything around it (encoder, counts, weights, the
rule after a loss) is the server's own code. So the replay *is* that code, on an engine whose sums
come out of transcripts. It runs in a thread of its own, which waits at every question.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Collected, Patience
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.journal import Journal, resumable
from fairsilo.network.transport import Traffic
from fairsilo.network.wire import Ask

OVER = "the training is over"
LONGEST = 600.0
"""Seconds after which a next question that does not come is an error."""


class Ended(Exception):
    """The replay is no longer wanted."""


class Replay:
    """One training at a witness: `expected` is the next question, `feed` gives its sum."""

    secure = replays = True

    def __init__(self, agreed: FederationFile, journal: Journal, baseline: bool) -> None:
        self.agreed, self.journal, self.baseline = agreed, journal, baseline
        self.traffic, self.patience = Traffic(), Patience()
        self._asks: queue.Queue[Ask | None] = queue.Queue()
        self._sums: queue.Queue[Collected | None] = queue.Queue()
        self._next: Ask | None = None
        self.why = ""
        """Why there is no further question."""
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def expected(self) -> Ask:
        """The next question; an error where there is none."""
        if self._next is None and not self.why:
            try:
                self._next = self._asks.get(timeout=LONGEST)
            except queue.Empty:
                raise FairSiloError("the witness could not replay the training in time") from None
        if self._next is None:
            raise FairSiloError(f"no question follows: {self.why}")
        return self._next

    def feed(self, collected: Collected, waited: dict[str, float]) -> None:
        """The sum of the question that was expected."""
        self._next = None
        self.patience.waited = waited
        self._sums.put(collected)

    @property
    def failed(self) -> bool:
        """Whether it ended, but not with the training: it may be tried again."""
        return bool(self.why) and self.why != OVER

    def end(self) -> None:
        """Let the thread go."""
        self._sums.put(None)

    def declare(self, declared: dict[str, Any], journal: Journal) -> None:
        """The witness was told."""

    def collect(self, ask: Ask, silos: Sequence[str], length: int) -> Collected:
        """Called by the engine: wait until the sum is there."""
        self._asks.put(ask)
        found = self._sums.get()
        if found is None:
            raise Ended
        check_asked(ask, silos, found)
        if not found.vector.size and found.faults:
            return replace(found, vector=np.zeros(length))
        if found.vector.size != length:
            raise FairSiloError(f"a sum has {found.vector.size:,} numbers instead of {length:,}")
        return found

    def _run(self) -> None:
        from fairsilo.network.server import engine_for
        from fairsilo.network.train import train_over

        try:
            made = engine_for(self.agreed)
            engine = made(self.agreed, self, self.journal, self.agreed.names, lambda event: None)
            train_over(self.agreed, engine, self.baseline)
            self.why = OVER
        except Ended:
            self.why = "the training went on elsewhere"
        except FairSiloError as error:
            self.why = str(error)
        except Exception as error:
            self.why = f"an unexpected error, {type(error).__name__}"
            raise
        finally:
            self._asks.put(None)


def check_asked(ask: Ask, silos: Sequence[str], found: Collected) -> None:
    """Refuse a sum without a silo that was asked and is not said to be lost.

    Who is there is seen at the first question: later ones are asked of all who are left.
    """
    if ask.number > 1 and {*found.silos, *found.faults} != set(silos):
        raise FairSiloError(f"the sum of question {ask.number} is over others than were asked")


def journal_of(folder: Path, agreed: FederationFile, training: str) -> Journal:
    """The witness's own journal of a training, as far as it came: sums, and what was paid for."""
    if any(folder.glob("*.safetensors")) or resumable(folder):
        return Journal(folder, agreed.fingerprint, resume=True)
    made = Journal(folder, agreed.fingerprint, resume=False)
    made.training = training
    made.note(())
    return made
