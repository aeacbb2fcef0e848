"""What a silo remembers from run to run, in a file of its own beside its settings.

shown      over whom the counts of its rows were opened
points     at which points sums of its rows were opened, and over whom
released   every release under differential privacy: its training, name, noise and how often
split      of these, the column that says which rows were private
tables     of every training, which table it began with
asked      of every training, how many questions of each kind were answered
keys       of every silo that changed its key, the first key it had
trained, audited   which models were trained and audited on its rows (`audited`)

It holds digests of tables and of public keys, names of releases, and nothing of a row. Silos are
told apart by their keys, because names may change from one federation file to the next; a silo
that changed its key is known by its first one (`chain`), also in files that do not tell. A table
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
from typing import TYPE_CHECKING, Any, NamedTuple

from fairsilo.data.files import write_atomic
from fairsilo.dp import Budget, Ledger, Release
from fairsilo.errors import FairSiloError
from fairsilo.network.chain import short
from fairsilo.network.wire import Refusal
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.static import StaticSumGuard

if TYPE_CHECKING:
    from fairsilo.network.federation_file import FederationFile
    from fairsilo.network.settings import Settings

LATEST = "latest"
"""Beside the kinds of questions of a training: the larger, the later it was asked last."""
NUMBER = "number"
"""Beside them, too: the number of its last question."""
TRAININGS = 500
"""Trainings whose answers are counted, the newest ones."""


class Kept(NamedTuple):
    """What the file holds."""

    guard: StaticSumGuard
    released: dict[str, list[Release]]
    """By training."""
    tables: dict[str, str]
    """By training and silo, the digest of the table it began with."""
    keys: dict[str, str]
    """By a silo's later key, its first one."""
    points: dict[str, dict[str, str]]
    """By table and point, over whom it was opened."""
    asked: dict[str, dict[str, int]]
    """By training and kind of question, how many were answered."""
    split: str = ""
    """Of releases, the column that says which rows are for training."""

    @property
    def releases(self) -> list[Release]:
        """Of all trainings."""
        return [one for own in self.released.values() for one in own]


def admit(
    path: Path,
    agreed: FederationFile,
    table: str,
    survivors: Sequence[str],
    opened: bool = True,
    own: str | None = None,
) -> None:
    """Note that the counts of this table are opened over these silos, or refuse.

    Where the federation file has `recount`, it is noted and not refused. What is not yet `opened`
    is refused all the same, so that training does not begin where it could not be evaluated.
    `own`: the silo whose ledger this is. It was in every sum that is noted here, so it must be
    known by a key that is in all of them.
    """
    with locked(path):
        kept = read(path)
        first = _first_keys(kept, agreed)
        known = [first[name] for name in survivors]
        if agreed.recount:
            kept.guard.note(table, known)
        elif own and not all(first[own] in past for past in kept.guard.shown(table)):
            raise ProtocolError(
                f"Counts of the rows of silo {own} were opened when it had another key, and the "
                "federation file does not show that both keys are its own; change a key with "
                "`fairsilo flower rotate-key`."
            )
        else:
            kept.guard.admit(table, known)
        if opened:
            _write(path, kept)


def admit_point(
    path: Path, agreed: FederationFile, table: str, survivors: Sequence[str], point: str
) -> None:
    """Note that sums at a point are opened over these silos, or refuse.

    A training is over the silos whose rows were counted. A point that was opened is opened again
    over the same silos only, in this training or any other, unless the federation file has
    `recount`; `point` is empty where it is the one at which every training starts.
    """
    with locked(path):
        kept = read(path)
        first = _first_keys(kept, agreed)
        known = frozenset(first[name] for name in survivors)
        if known not in kept.guard.shown(table):
            raise ProtocolError(
                "Sums of a training are opened over the silos whose rows were counted, and over "
                "no others; count the rows of these silos first."
            )
        whose = hashlib.sha256(" ".join(sorted(known)).encode()).hexdigest()[:16]
        before = kept.points.setdefault(table, {}).get(point, whose)
        if point and before != whose and not agreed.recount:
            raise ProtocolError(
                "The sums at this point were opened over other silos before, and with these they "
                "would show what the others hold; begin another training."
            )
        if point and point not in kept.points[table]:
            kept.points[table][point] = whose
            _write(path, kept)


def count(path: Path, training: str, kind: str, most: int, number: int) -> bool:
    """Note that a training is answered a question of this kind, unless it had `most` already.

    `number`: of the question. A training goes on; a run that is resumed may have lost one sum.
    """
    with locked(path):
        kept = read(path)
        latest = 1 + max((one.get(LATEST, 0) for one in kept.asked.values()), default=0)
        asked = kept.asked.setdefault(training, {})
        last = asked.get(NUMBER, 0)
        if number < last - 1:
            raise Refusal(
                f"question {number} comes after question {last} of the training: begin another one"
            )
        asked[NUMBER] = max(number, last)
        asked[kind] = asked.get(kind, 0) + 1
        asked[LATEST] = latest
        while len(kept.asked) > TRAININGS:
            del kept.asked[min(kept.asked, key=lambda one: kept.asked[one].get(LATEST, 0))]
        fits = asked[kind] <= most
        if fits:
            _write(path, kept)
        return fits


def _first_keys(kept: Kept, agreed: FederationFile) -> dict[str, str]:
    """By silo, the first key that it had, as this federation file or an earlier one shows."""
    for silo in agreed.silos:
        keys = [short(key) for key in silo.keys]
        firsts = {kept.keys.get(key, key) for key in keys}
        first = kept.keys.get(keys[0], keys[0])
        same = {*keys, *firsts, *(key for key, one in kept.keys.items() if one in firsts)}
        kept.keys.update(dict.fromkeys(same - {first}, first))
    kept.guard.rename(kept.keys)
    last = {silo.name: short(silo.public_key) for silo in agreed.silos}
    found = {name: kept.keys.get(key, key) for name, key in last.items()}
    if len(set(found.values())) < len(found):
        raise ProtocolError("Two silos of the federation file are one, by keys that it had before.")
    return found


def spend(
    path: Path,
    budget: Budget,
    releases: Sequence[Release],
    training: str = "",
    promise: Budget | None = None,
    split: str = "",
) -> None:
    """Write down what is about to leave; where it passes the `budget` for all trainings, or what
    this training promised, raise `BudgetSpent`: then nothing may leave."""
    with locked(path):
        kept = read(path)
        kept = kept._replace(split=kept.split or split)
        own = kept.released.setdefault(training, [])
        ledgers = [Ledger(budget, kept.releases), Ledger(promise or budget, list(own))]
        for release in releases:
            for ledger in ledgers:
                ledger.charge(release)
        own.extend(releases)
        _write(path, kept)


def privacy_conflict(settings: Settings, agreed: FederationFile) -> str:
    """Why the federation file's privacy is not the one that this silo wants; nothing if it is."""
    if agreed.dp is None and settings.dp_budget_epsilon is not None:
        return (
            "this silo has a privacy budget (dp_budget_epsilon) and answers only where the "
            "federation file has differential privacy"
        )
    if agreed.dp is None and read(settings.ledger).releases:
        return (
            "this silo's rows were used under differential privacy before, which exact sums would "
            "undo: the federation file has no differential privacy"
        )
    if agreed.dp is not None and settings.dp_budget_epsilon is None:
        return (
            "the federation file has differential privacy and this silo's settings give no budget "
            "for it (dp_budget_epsilon)"
        )
    if agreed.dp is not None and (before := read(settings.ledger).split) not in ("", agreed.split):
        return (
            "this silo's rows were used under differential privacy with the split column "
            f"{before!r}, and the exact figures of other test rows would undo that: name it as "
            "`split` again"
        )
    return ""


def same_table(path: Path, training: str, digest: str) -> bool:
    """Whether the training began with this table; the first one is noted."""
    with locked(path):
        kept = read(path)
        if training not in kept.tables:
            others = [one for one in kept.tables if one not in kept.asked]
            for old in others[: max(len(kept.tables) + 1 - TRAININGS, 0)]:
                del kept.tables[old]
            kept.tables[training] = digest
            _write(path, kept)
        return kept.tables[training] == digest


def read(path: Path) -> Kept:
    """The file as earlier runs left it; an unreadable one is never taken for empty."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Kept(StaticSumGuard(), {}, {}, {}, {}, {})
    except OSError as error:
        raise FairSiloError(f"cannot read the ledger {path} ({error.strerror})") from None
    return from_bytes(content, path)


def raw(path: Path) -> dict[str, Any]:
    """The file's whole content, checked; that of an empty ledger where there is none."""
    read(path)
    content: dict[str, Any] = json.loads(
        path.read_bytes() if path.exists() else StaticSumGuard().to_bytes()
    )
    return content


def from_bytes(content: bytes, path: Path) -> Kept:
    """A ledger's content; `path` is for the sentence that says where it is damaged."""
    guard = StaticSumGuard.from_bytes(content)
    try:
        found = json.loads(content)
        lines, tables = found.get("released", []), dict(found.get("tables", {}))
        keys = dict(found.get("keys", {}))
        points = {str(k): dict(v) for k, v in found.get("points", {}).items()}
        asked = {str(k): dict(v) for k, v in found.get("asked", {}).items()}
        split = str(found.get("split", ""))
        releases: dict[str, list[Release]] = {}
        for line in lines:
            one = Release(str(line["release"]), float(line["noise_multiplier"]))
            if not one.multiplier > 0:
                raise ValueError("a multiplier is not positive")
            own = releases.setdefault(str(line.get("training", "")), [])
            own.extend([one] * int(line["times"]))
    except (ValueError, KeyError, TypeError):
        raise FairSiloError(
            f"the ledger {path} is damaged: put back the last copy, or begin a new ledger with "
            "what is left of the budget"
        ) from None
    return Kept(guard, releases, tables, keys, points, asked, split)


def _write(path: Path, kept: Kept) -> None:
    # What other parts keep in the file stays.
    content: dict[str, Any] = raw(path) | json.loads(kept.guard.to_bytes())
    content["released"] = [
        {
            "training": training,
            "release": one.name,
            "noise_multiplier": one.multiplier,
            "times": times,
        }
        for training, releases in kept.released.items()
        for one, times in Counter(releases).items()
    ]
    content |= {
        "tables": kept.tables, "keys": kept.keys, "points": kept.points, "asked": kept.asked,
        **({"split": kept.split} if kept.split else {}),
    }  # fmt: skip
    write(path, content)


def write(path: Path, content: dict[str, Any]) -> None:
    """Write one of the silo's own files of JSON; what cannot be written is a refusal."""
    try:
        write_atomic(path, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode(), 0o600)
    except FairSiloError as error:
        raise unwritten(error.__cause__) from None


def unwritten(error: BaseException | None) -> Refusal:
    """What the server is told where the disk is full, or a file cannot be written."""
    why = getattr(error, "strerror", None) or "it failed"
    return Refusal(
        f"this silo cannot write to its disk ({why}), and gives no answer that it cannot write "
        "down: free space there, then use `resume`"
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two runs at once must not both find the same room in the budget."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise unwritten(error) from None
