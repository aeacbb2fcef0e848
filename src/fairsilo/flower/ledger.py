"""What a silo remembers from run to run, in a file of its own beside its settings.

shown      over whom the counts of its rows were opened
released   every release under differential privacy: its name, its noise and how often

It holds digests of tables and of public keys, names of releases, and nothing of a row. Silos are
told apart by their keys, because names may change from one federation file to the next. A table
that changed is another table, whose counts are new. Not so for the privacy budget: most of a
changed table's rows were there before, so a file counts all that was ever released beside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairsilo.data.files import write_atomic
from fairsilo.dp import Budget, Ledger, Release
from fairsilo.errors import FairSiloError
from fairsilo.flower.charter import Charter
from fairsilo.privacy.static import StaticSumGuard


def admit(path: Path, charter: Charter, table: str, survivors: Sequence[str]) -> None:
    """Note that the counts of this table are opened over these silos, or refuse.

    Where the federation file has `recount`, it is noted and not refused.
    """
    keys = {silo.name: silo.public_key.split()[1] for silo in charter.silos}
    known = [hashlib.sha256(keys[name].encode()).hexdigest()[:32] for name in survivors]
    with _locked(path):
        guard, releases = read(path)
        if charter.recount:
            guard.note(table, known)
        else:
            guard.admit(table, known)
        _write(path, guard, releases)


def spend(path: Path, budget: Budget, releases: Sequence[Release]) -> None:
    """Write down what is about to leave, or raise `BudgetSpent`: then nothing may leave."""
    with _locked(path):
        guard, before = read(path)
        ledger = Ledger(budget, list(before))
        for release in releases:
            ledger.charge(release)
        _write(path, guard, ledger.releases)


def read(path: Path) -> tuple[StaticSumGuard, list[Release]]:
    """The file as earlier runs left it; an unreadable one is never taken for empty."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return StaticSumGuard(), []
    except OSError as error:
        raise FairSiloError(f"cannot read the ledger {path} ({error.strerror})") from None
    guard = StaticSumGuard.from_bytes(content)
    try:
        lines = json.loads(content).get("released", [])
        releases = [
            Release(str(line["release"]), float(line["noise_multiplier"]))
            for line in lines
            for _ in range(int(line["times"]))
        ]
        if not all(one.multiplier > 0 for one in releases):
            raise ValueError("a multiplier is not positive")
    except (ValueError, KeyError, TypeError):
        raise FairSiloError(
            f"the ledger {path} is damaged: put back the last copy, or begin a new ledger with "
            "what is left of the budget"
        ) from None
    return guard, releases


def _write(path: Path, guard: StaticSumGuard, releases: Sequence[Release]) -> None:
    content: dict[str, Any] = json.loads(guard.to_bytes())
    counted = Counter(releases)
    content["released"] = [
        {"release": one.name, "noise_multiplier": one.multiplier, "times": times}
        for one, times in counted.items()
    ]
    write_atomic(path, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two runs at once must not both find the same room in the budget."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise FairSiloError(f"cannot lock the ledger {path} ({error.strerror})") from None
