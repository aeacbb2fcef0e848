"""Accounts that a witness has not had yet, on the server's disk: whoever resumes a run can tell
them. They go once every witness has them, or where one stays away too long."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fairsilo.data.files import write_atomic
from fairsilo.network.account import packed, unpacked
from fairsilo.network.wire import Record

HAVE = "have.json"
"""By witness, the last question of which it had the account."""
LARGEST = 1 << 30
"""Bytes that are kept for those who are away."""


class Accounts:
    """The records of a run's last questions, by their number, and who has which."""

    def __init__(self, witnesses: Sequence[str], folder: Path | None = None, last: int = 0) -> None:
        """`last`: the last question whose sum the server has."""
        self.folder = folder
        self.sizes: dict[int, int] = {}
        have: dict[str, int] = {}
        if folder is not None and folder.exists():
            for path in folder.glob("*.safetensors"):
                number = int(path.stem)
                if number > last:
                    path.unlink()
                else:
                    self.sizes[number] = path.stat().st_size
            if (folder / HAVE).exists():
                have = json.loads((folder / HAVE).read_bytes())
        self.have = {name: min(have.get(name, 0), last) for name in witnesses}

    def missing(self, name: str) -> list[int]:
        """What a witness has not had yet, the first one first."""
        return sorted(number for number in self.sizes if number > self.have.get(name, 0))

    def put(self, number: int, record: Record) -> None:
        """Keep one; whoever lacks what is too much to keep is told nothing more."""
        written = packed(record)
        write_atomic(self._path(number), written, 0o600)
        self.sizes[number] = len(written)
        while sum(self.sizes.values()) > LARGEST and len(self.sizes) > 1:
            first = min(self.sizes)
            self.have = {name: last for name, last in self.have.items() if last >= first}
            self._drop(first)

    def get(self, number: int) -> Record:
        """The record that was put."""
        return unpacked(self._path(number).read_bytes())

    def had(self, name: str, number: int) -> None:
        """A witness has it now."""
        self.have[name] = max(self.have[name], number)
        for old in [one for one in self.sizes if one <= min(self.have.values())]:
            self._drop(old)
        assert self.folder is not None
        write_atomic(self.folder / HAVE, json.dumps(self.have).encode(), 0o600)

    def _drop(self, number: int) -> None:
        del self.sizes[number]
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{number:06d}.safetensors"
