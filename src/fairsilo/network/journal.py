"""What the server knows after every exchange, on disk, so that a killed run can go on.

A solver is a pure function of the sums it was given, so the journal keeps sums and no solver's
state: to resume is to feed them to the solver again, without asking a silo, and to go on asking
where they end. One file per exchange, written atomically, as safetensors; nothing is unpickled.

Before the first question leaves, the journal has a head: the federation file's fingerprint, the
training's own name, by which silos know it again under another run of Flower's, and, of a private
run, what was asked for so far, answered or not.
"""

from __future__ import annotations

import copy
import json
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from fairsilo.arrays import Floats
from fairsilo.data.files import write_atomic
from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.network.transport import Traffic

PART = "of "
"""Before a silo's name: its own vector in the file."""
HEAD = "head.json"
VERSION = 2
TIE = 1e-14
"""How far, relative to its numbers, a sum may be from another one that a processor with other
rounding errors takes for the same."""
WHEN = "%Y-%m-%d %H:%M UTC"


def resumable(folder: Path) -> bool:
    """Whether an interrupted run left something there to go on from."""
    try:
        head = json.loads((folder / HEAD).read_bytes())
        return bool(head["releases"]) or any(folder.glob("*.safetensors"))
    except (OSError, ValueError, TypeError, KeyError):
        return False


def sealed(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Arrays by name, and what JSON can say, as one file."""
    return save(arrays, metadata={"entry": json.dumps(about)})


def opened(content: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What `sealed` wrote."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return json.loads(header["__metadata__"]["entry"]), load(content)


@dataclass(frozen=True, eq=False)
class Entry:
    """The result of one exchange: a sum over silos, or the silos that were lost."""

    kind: str
    number: int
    silos: tuple[str, ...]
    """Whose sum it is; or, of an entry without a sum, who is left."""
    seconds: float
    lost: dict[str, str] = field(default_factory=dict)
    """Silo and reason."""
    waited: dict[str, float] = field(default_factory=dict)
    """Silos that were lost and came back within the question, and after how many seconds."""
    traffic: Traffic = field(default_factory=Traffic)
    vector: Floats | None = None
    parts: dict[str, Floats] = field(default_factory=dict)
    """Of an evaluation in the clear: every silo's own vector."""


class Journal:
    """The entries of a run, in a folder; old ones are read back, new ones appended."""

    def __init__(
        self,
        folder: Path,
        fingerprint: str,
        resume: bool,
        past: Sequence[str] = (),
        start: str = "",
    ) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self.start = start
        """A digest of the model from which training starts; none: from zero."""
        self.old: list[Entry] = []
        self.training, self.releases = secrets.token_hex(16), list[Release]()
        self.interruptions: list[str] = []
        """What a run that was interrupted says of its past in its notes; `past` is why it was."""
        self.count = 0
        self.ties: dict[int, int] = {}
        """At a witness, by question: which sum beside its own the solver goes on from."""
        if resume:
            self._resume()
            why = f" ({past[-1]})" if past else ""
            self.interruptions.append(
                f"the run was interrupted after question {len(self.old)}"
                f"{why} and resumed at {time.strftime(WHEN, time.gmtime())}"
            )
            self.note(self.releases)
            return
        self.interruptions = [
            f"the run was interrupted before it had an answer ({why}) and begun anew"
            for why in past
        ]
        if folder.exists():
            shutil.rmtree(folder)
        self.note(())

    def reread(self) -> Journal:
        """The same journal from its beginning, with all that was written; the disk stays as is."""
        found = copy.copy(self)
        found.count = 0
        found._read()
        return found

    def clear(self) -> None:
        """Remove the journal of a run that has its folder: there is nothing left to resume."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def beside(self, number: int, vector: Floats) -> Floats:
        """A question's sum as a solver gets it: at a tie one so near that only rounding tells."""
        if number not in self.ties:
            return vector
        rng = np.random.default_rng([number, self.ties[number]])
        return vector * (1 + TIE * rng.standard_normal(vector.shape))

    @property
    def exhausted(self) -> bool:
        """Whether all entries of an interrupted run have been replayed."""
        return self.count >= len(self.old)

    def replay(self) -> Entry | None:
        """The next entry of the interrupted run, or None where it ends."""
        if self.exhausted:
            return None
        self.count += 1
        return self.old[self.count - 1]

    @property
    def upcoming(self) -> str:
        """The kind of the next entry to be replayed; empty where there is none."""
        return "" if self.exhausted else self.old[self.count].kind

    def note(self, releases: Sequence[Release]) -> None:
        """Keep what a private run has asked for so far, answered or not."""
        self.releases = list(releases)
        head = {
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "training": self.training,
            "start": self.start,
            "releases": [[one.name, one.multiplier] for one in releases],
            "interruptions": self.interruptions,
        }
        write_atomic(self.folder / HEAD, json.dumps(head).encode(), 0o600)

    def append(self, entry: Entry) -> None:
        """Write an entry, complete or not at all."""
        self.count += 1
        about = {k: v for k, v in asdict(entry).items() if k not in ("vector", "parts")}
        vector = np.zeros(0) if entry.vector is None else entry.vector
        parts = {PART + name: part for name, part in entry.parts.items()}
        write_atomic(self._path(self.count), sealed(about, {"vector": vector, **parts}), 0o600)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.safetensors"

    def _resume(self) -> None:
        """Read what an interrupted run left."""
        self._read()
        if not self.old and not self.releases:
            raise self._nothing()

    def _read(self) -> None:
        self._read_head()
        self.old = []
        while (path := self._path(len(self.old) + 1)).exists():
            self.old.append(self._entry(path))

    def _read_head(self) -> None:
        path = self.folder / HEAD
        try:
            head = json.loads(path.read_bytes())
            if head.get("version") != VERSION:
                raise FairSiloError(
                    f"{self.folder.parent} was left by another version of fairsilo: run without "
                    "`resume`"
                )
            if head["fingerprint"] != self.fingerprint:
                raise FairSiloError(
                    f"{self.folder.parent} belongs to a run with another federation file: run "
                    "without `resume`"
                )
            if head.get("start", "") != self.start:
                raise FairSiloError(
                    f"{self.folder.parent} was begun from another model: use `resume` with the "
                    "same `start_from`, or without one where there was none"
                )
            self.training = str(head["training"])
            self.releases = [Release(str(name), float(z)) for name, z in head["releases"]]
            self.interruptions = [str(one) for one in head.get("interruptions", ())]
        except FileNotFoundError:
            raise self._nothing() from None
        except (OSError, ValueError, TypeError, KeyError):
            raise FairSiloError(f"{path} is damaged: run without `resume`") from None

    def _nothing(self) -> FairSiloError:
        return FairSiloError(
            f"there is nothing to resume in {self.folder.parent}: run without `resume`"
        )

    def _entry(self, path: Path) -> Entry:
        try:
            about, parts = opened(path.read_bytes())
            vector = parts.pop("vector")
            parts = {name.removeprefix(PART): part for name, part in parts.items()}
            about["traffic"] = Traffic(**about["traffic"])
            entry = Entry(**{**about, "silos": tuple(about["silos"])}, vector=vector, parts=parts)
        except Exception as error:
            raise FairSiloError(f"{path} is damaged: run without `resume`") from error
        return entry if entry.vector is not None and entry.vector.size else _without(entry)


def _without(entry: Entry) -> Entry:
    return replace(entry, vector=None)
