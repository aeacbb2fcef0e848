"""What the server knows after every exchange, on disk, so that a killed run can go on.

A solver is a pure function of the sums it was given, so the journal keeps sums and no solver's
state: to resume is to feed them to the solver again, without asking a silo, and to go on asking
where they end. One file per exchange, written atomically, as safetensors; nothing is unpickled.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from fairsilo.data.files import write_atomic
from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.flower.post import Traffic

Floats = npt.NDArray[np.float64]
PART = "of "
"""Before a silo's name: its own vector in the file."""
RELEASES = "releases.json"


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
    traffic: Traffic = field(default_factory=Traffic)
    vector: Floats | None = None
    parts: dict[str, Floats] = field(default_factory=dict)
    """Of an evaluation in the clear: every silo's own vector."""


class Journal:
    """The entries of a run, in a folder; old ones are read back, new ones appended."""

    def __init__(self, folder: Path, fingerprint: str, resume: bool) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self.old: list[Entry] = []
        if resume:
            self.old = self._read()
        elif folder.exists():
            shutil.rmtree(folder)
        self.count = 0

    def clear(self) -> None:
        """Remove the journal of a run that has its folder: there is nothing left to resume."""
        shutil.rmtree(self.folder, ignore_errors=True)

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

    def left(self, kind: str) -> int:
        """How many entries of a kind are still to be replayed."""
        return sum(entry.kind == kind for entry in self.old[self.count :])

    def note(self, releases: Sequence[Release]) -> None:
        """Keep what a private run has asked for so far, answered or not."""
        content = json.dumps([[one.name, one.multiplier] for one in releases])
        write_atomic(self.folder / RELEASES, content.encode())

    def releases(self) -> list[Release]:
        """What the interrupted run had asked for."""
        path = self.folder / RELEASES
        if not self.old or not path.exists():
            return []
        try:
            return [Release(str(name), float(z)) for name, z in json.loads(path.read_bytes())]
        except (OSError, ValueError, TypeError):
            raise FairSiloError(f"{path} is damaged: run without --resume") from None

    def append(self, entry: Entry) -> None:
        """Write an entry, complete or not at all."""
        self.count += 1
        about = {k: v for k, v in asdict(entry).items() if k not in ("vector", "parts")}
        about["fingerprint"] = self.fingerprint
        vector = np.zeros(0) if entry.vector is None else entry.vector
        parts = {PART + name: part for name, part in entry.parts.items()}
        content = save({"vector": vector, **parts}, metadata={"entry": json.dumps(about)})
        write_atomic(self._path(self.count), content)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.safetensors"

    def _read(self) -> list[Entry]:
        entries: list[Entry] = []
        while (path := self._path(len(entries) + 1)).exists():
            entries.append(self._entry(path))
        if not entries:
            raise FairSiloError(
                f"there is nothing to resume in {self.folder.parent}: run without --resume"
            )
        return entries

    def _entry(self, path: Path) -> Entry:
        try:
            content = path.read_bytes()
            length = int.from_bytes(content[:8], "little")
            header = json.loads(content[8 : 8 + length])
            about = json.loads(header["__metadata__"]["entry"])
            parts = load(content)
            vector = parts.pop("vector")
            parts = {name.removeprefix(PART): part for name, part in parts.items()}
            found, about["traffic"] = about.pop("fingerprint"), Traffic(**about["traffic"])
            entry = Entry(**{**about, "silos": tuple(about["silos"])}, vector=vector, parts=parts)
        except Exception as error:
            raise FairSiloError(f"{path} is damaged: run without --resume") from error
        if found != self.fingerprint:
            raise FairSiloError(
                f"{self.folder.parent} belongs to a run with another federation file: run without "
                "--resume"
            )
        return entry if entry.vector is not None and entry.vector.size else _without(entry)


def _without(entry: Entry) -> Entry:
    return replace(entry, vector=None)
