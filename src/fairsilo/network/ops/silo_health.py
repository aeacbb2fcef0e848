"""How a silo's program is: its two processes, its contact with the SuperLink, what left it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairsilo.network import approval
from fairsilo.network.left import REMARK, parsed
from fairsilo.network.ops.health import Health, Metric
from fairsilo.network.settings import Settings

if TYPE_CHECKING:
    from fairsilo.network.ops.program import Child

SILENT = 90.0
"""Seconds without contact after which the SuperLink counts as out of reach."""


class Tally:
    """Counts over left.jsonl, of which only what is new is read; they go on where the owner moved
    the file away and another one began."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.file = path, 0, 0
        self.turn = threading.Lock()
        self.replies = self.refused = self.bytes = self.remarks = 0
        self.last = ""

    def look(self) -> None:
        """Count the lines that came since the last look, one at a time."""
        with self.turn, contextlib.suppress(FileNotFoundError), self.path.open("rb") as stream:
            about = os.fstat(stream.fileno())
            if about.st_ino != self.file or about.st_size < self.offset:
                self.file, self.offset = about.st_ino, 0
            stream.seek(self.offset)
            self._count(stream.read())

    def _count(self, content: bytes) -> None:
        # The rest of a line that is being written is for the next look.
        whole = content[: content.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in parsed(whole):
            if line.get("kind") == REMARK:
                self.remarks += 1
                continue
            self.replies += 1
            self.refused += bool(line.get("refused"))
            self.bytes += int(line.get("bytes", 0))
            self.last = str(line.get("time", ""))


class SiloHealth:
    """Called for every look; `contact` is the file that the node touches."""

    def __init__(self, settings: Settings, children: Sequence[Child], contact: Path) -> None:
        self.settings, self.children, self.contact = settings, children, contact
        self.tally = Tally(settings.left)

    def __call__(self) -> Health:
        """The silo's health now."""
        self.tally.look()
        waiting = len(approval.waiting(self.settings))
        age = time.time() - self.contact.stat().st_mtime if self.contact.exists() else None
        problems = [child.why for child in self.children if child.ended]
        if not problems and age is None:
            problems.append("the SuperLink has not answered yet")
        elif age is not None and age > SILENT:
            problems.append(f"the SuperLink has not answered for {age:.0f} s")
        facts: dict[str, Any] = {
            "silo": self.settings.name,
            "processes": {one.name: "ended" if one.ended else "running" for one in self.children},
            "restarts": {one.name: one.ends for one in self.children},
            "contact_seconds": age,
            "replies": self.tally.replies,
            "refused": self.tally.refused,
            "last_reply": self.tally.last or None,
            "waiting_for_approval": waiting,
            "remarks": self.tally.remarks,
        }
        return Health(problems, facts, self._metrics(age, waiting))

    def _metrics(self, age: float | None, waiting: int) -> list[Metric]:
        tally = self.tally
        found = []
        for one in self.children:
            label = {"process": one.name}
            up = "Whether a process of the silo's program runs."
            again = "How often it ended and was started again."
            found.append(Metric("fairsilo_process_up", not one.ended, up, labels=label))
            found.append(Metric("fairsilo_restarts_total", one.ends, again, "counter", label))
        if age is not None:
            words = "Seconds since the SuperLink answered last."
            found.append(Metric("fairsilo_contact_seconds", age, words))
        words = "Runs that wait for the owner's approval."
        return [
            *found,
            Metric("fairsilo_waiting_for_approval", waiting, words),
            Metric("fairsilo_replies_total", tally.replies, "Replies that left.", "counter"),
            Metric("fairsilo_refused_total", tally.refused, "Those that refused.", "counter"),
            Metric("fairsilo_left_bytes_total", tally.bytes, "Bytes that left.", "counter"),
        ]
