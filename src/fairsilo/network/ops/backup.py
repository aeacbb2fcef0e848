"""A silo's or a witness's state in one file, and back: settings, key, ledger, own records. Never
a silo's rows.

What a silo remembers of what it showed (ledger, list of what left) only grows. So a copy that has
counted less is never put in the place of one that has counted more.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fairsilo import __version__
from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network import ledger
from fairsilo.network.ledger import Kept, from_bytes, locked
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.workspace import write_start
from fairsilo.network.settings import Settings, read_settings

FORMAT = 1
ABOUT, SETTINGS, LEDGER, LEFT, APPROVALS = (
    "about.json", "silo.toml", "ledger.json", "left.jsonl", "approvals.json"
)  # fmt: skip
KEY = "node.key"
MODELS, WITNESSED = "models/", "witnessed/"
LARGEST = 1 << 30
"""Bytes that are read of a file in a backup."""


@dataclass
class Restored:
    """What became of every file, and of when a ledger is that was put back."""

    files: dict[str, str] = field(default_factory=dict)
    ledger_since: str | None = None


def save(path: Path, file: Path) -> list[str]:
    """Write the backup of the silo whose settings these are; the names of what is in it."""
    settings = read_settings(path)
    with locked(settings.ledger):
        found = {
            name: place.read_bytes()
            for name, place in _places(settings, path)
            if place is not None and place.is_file()
        }
    if LEDGER in found:
        from_bytes(found[LEDGER], settings.ledger)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"format": FORMAT, "fairsilo": __version__, "silo": settings.name, "time": now}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in {ABOUT: json.dumps(about).encode(), **found}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    if file.exists():
        raise FairSiloError(f"{file} exists already and is not overwritten: choose another place")
    write_atomic(file, stream.getvalue(), 0o600)
    return list(found)


def restore(file: Path, folder: Path) -> Restored:
    """Put a backup back into a silo's folder: all of it, or nothing where something else is there.

    A ledger or list that has grown since stays as it is.
    """
    about, content = _read(file)
    path = folder / SETTINGS
    settings = _settings_of(content, path)
    result, writes = Restored(), list[tuple[str, Path, bytes]]()
    with locked(settings.ledger):
        for name, place in _places(settings, path, content):
            if name not in content or place is None:
                continue
            here = place.read_bytes() if place.is_file() else None
            what = _decide(name, place, here, content[name])
            result.files[name] = what
            if what == "restored":
                writes.append((name, place, content[name]))
        # The ledger first and the key last: where the disk is full in between, there is no silo
        # that could answer and has forgotten what it showed.
        writes.sort(key=lambda one: (one[0] != LEDGER, one[0].startswith(KEY)))
        for _, place, new in writes:
            write_atomic(place, new, 0o600)
    role = "witness" if settings.witness else "silo"
    if not (folder / f"start-{role}.sh").exists():
        result.files[write_start(folder, role).name] = "written anew"
    if result.files.get(LEDGER) == "restored":
        result.ledger_since = str(about["time"])
    return result


def _decide(name: str, place: Path, here: bytes | None, kept: bytes) -> str:
    """What to do with a file: put it back, or leave what is there."""
    if here is None:
        return "restored"
    if here == kept:
        return "is there already"
    more = _GROWS.get(name)
    if more is not None and more(here, kept, place):
        return "stays: it has grown since the backup"
    if more is not None and more(kept, here, place):
        return "restored"
    changed = WITNESSED if name.startswith(WITNESSED) else name
    if changed in _STAYS:
        return f"stays: {_STAYS[changed]}"
    why = "went another way than the backup's" if more is not None else "is another one"
    raise FairSiloError(
        f"{place} {why}, and nothing was restored: move it away if the backup's is to count"
    )


def _counts_more(one: bytes, other: bytes, place: Path) -> bool:
    """Whether a ledger has all that another has."""
    a, b = from_bytes(one, place), from_bytes(other, place)
    return (
        all(set(sets) <= set(_shown(a).get(table, ())) for table, sets in _shown(b).items())
        and Counter(b.releases) <= Counter(a.releases)
        and b.tables.items() <= a.tables.items()
        and b.keys.items() <= a.keys.items()
        and _models(other) <= _models(one)
        and all(own.items() <= a.points.get(table, {}).items() for table, own in b.points.items())
        and all(
            times <= a.asked.get(training, {}).get(kind, 0)
            for training, own in b.asked.items()
            if not _pruned(training, a, b)
            for kind, times in own.items()
        )
    )


def _pruned(training: str, later: Kept, earlier: Kept) -> bool:
    """Whether a ledger has no count of a training any more because so many came after it."""
    if training in later.asked or len(later.asked) < ledger.TRAININGS:
        return False
    oldest = min(own.get(ledger.LATEST, 0) for own in later.asked.values())
    return earlier.asked[training].get(ledger.LATEST, 0) < oldest


def _models(content: bytes) -> set[tuple[str, str]]:
    """The models that were trained, and by table those that were audited."""
    found = json.loads(content)
    tables = {"": found.get("trained", ()), **found.get("audited", {})}
    return {(table, model) for table, models in tables.items() for model in models}


def _shown(kept: Kept) -> dict[str, list[tuple[str, ...]]]:
    found = json.loads(kept.guard.to_bytes())["shown"]
    return {table: [tuple(past) for past in sets] for table, sets in found.items()}


_GROWS: dict[str, Callable[[bytes, bytes, Path], bool]] = {
    LEDGER: _counts_more,
    LEFT: lambda one, other, place: one.startswith(other),
}
"""Of files that only grow: whether the first has all that the second has."""


_STAYS = {
    WITNESSED: "the witness went on since the backup",
    LEFT: "it was begun anew since the backup",
    APPROVALS: "a yes may have been taken back since the backup",
}
"""Files that are left alone where they are others than the backup's, and why."""


def _places(
    settings: Settings, path: Path, content: dict[str, bytes] | None = None
) -> Iterator[tuple[str, Path | None]]:
    """Where each file of a backup is at the silo, by its name in the backup."""
    beside = path.resolve().parent
    key = settings.key
    yield SETTINGS, path
    yield "federation.json", settings.federation
    yield CA, beside / CA
    for ending in ("", ".pub", ".new", ".new.pub"):
        yield f"{KEY}{ending}", None if key is None else key.with_name(key.name + ending)
    yield LEDGER, settings.ledger
    yield LEFT, settings.left
    yield APPROVALS, settings.approvals
    for before, folder in ((MODELS, settings.models), (WITNESSED, settings.witnessed)):
        if content is None:
            found = sorted(one for one in folder.rglob("*") if one.is_file())
            yield from ((before + one.relative_to(folder).as_posix(), one) for one in found)
        else:
            own = (one for one in content if one.startswith(before))
            yield from ((name, folder / name.removeprefix(before)) for name in own)


def _settings_of(content: dict[str, bytes], path: Path) -> Settings:
    """The settings of the backup, as they count in this folder."""
    trial = path.with_name(f".{path.name}.backup")
    try:
        write_atomic(trial, content[SETTINGS], 0o600)
        return read_settings(trial)
    finally:
        trial.unlink(missing_ok=True)


def _read(file: Path) -> tuple[dict[str, str], dict[str, bytes]]:
    """All files of a backup by name; links, folders and paths that lead elsewhere are refused."""
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(file, "r:") as archive:
            for entry in archive:
                parts = Path(entry.name).parts
                plain = "/".join(parts) == entry.name and not {"..", "/"} & set(parts)
                if not (plain and entry.isreg() and entry.size <= LARGEST):
                    raise ValueError(entry.name)
                stream = archive.extractfile(entry)
                assert stream is not None
                content[entry.name] = stream.read()
        about = json.loads(content.pop(ABOUT))
        if about["format"] != FORMAT or SETTINGS not in content:
            raise ValueError(about["format"])
        return about, content
    except (OSError, ValueError, KeyError, TypeError, IndexError, tarfile.TarError):
        raise FairSiloError(
            f"{file} is no backup of a silo: give a file that `fairsilo flower backup` wrote"
        ) from None
