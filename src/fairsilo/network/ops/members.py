"""Who takes part changes: a silo or a witness joins, leaves, or has a new key. Each is a new
federation file."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network.chain import Past, change, short
from fairsilo.network.federation_file import FederationFile, read_federation_file
from fairsilo.network.member import Member
from fairsilo.network.ops.draft import member
from fairsilo.network.ops.keys import make_key
from fairsilo.network.ops.workspace import Workspace, changing, next_file
from fairsilo.network.settings import Settings
from fairsilo.secagg import load_node_key
from fairsilo.secagg.keys import PASSPHRASE, is_locked, public_bytes, read_public_key

LARGEST = 100_000
"""Bytes that are read of a file about a new key."""


def add(space: Workspace, name: str, key: Path, witness: bool = False) -> FederationFile:
    """A silo joins, or a witness."""
    with changing(space):
        agreed = space.agreed
        if name in {one.name for one in agreed.parties}:
            raise FairSiloError(
                f"there is a silo {name} already, or a witness: choose another name, or have it "
                "change its key with `fairsilo flower rotate-key`"
            )
        new = (member(name, key),)
        if witness:
            return _go_over(space, agreed.silos, agreed.witnesses + new)
        return _go_over(space, agreed.silos + new, agreed.witnesses)


def remove(space: Workspace, name: str) -> FederationFile:
    """A silo leaves, or a witness."""
    with changing(space):
        return _replace(space, _party(space.agreed, name), ())


def accept(space: Workspace, file: Path) -> tuple[str, FederationFile]:
    """A party has a new key, as the file says that it wrote; its name, and the federation file."""
    name, line, past = _read_change(file)
    with changing(space):
        old = _party(space.agreed, name)
        if past.public_key.split()[1] != old.public_key.split()[1]:
            raise FairSiloError(
                f"{file} follows another key than the one that {name} has in the federation file: "
                "take the file that it wrote last"
            )
        try:
            new = Member(name=name, public_key=line, past=(*old.past, past))
        except ValidationError as error:
            raise FairSiloError(f"{file}: {_first(error)}") from None
        return name, _replace(space, old, (new,))


def loners(before: FederationFile, after: FederationFile) -> tuple[str, ...]:
    """Who alone came or went: ledgers refuse to count the same rows with and without one silo."""
    first = [{short(silo.keys[0]) for silo in agreed.silos} for agreed in (before, after)]
    named = {short(silo.keys[0]): silo.name for silo in (*before.silos, *after.silos)}
    alone = [one - other for one, other in (first, first[::-1]) if len(one - other) == 1]
    return tuple(named[key] for keys in alone for key in keys)


@dataclass(frozen=True)
class Rotation:
    """Where a silo's change of its key stands."""

    file: Path
    """What the coordinator gets."""
    done: bool
    """Whether the silo's federation file has the new key, which is then the silo's own."""


def rotate(settings: Settings, beside: Path) -> Rotation:
    """At the silo: make a new key and have both sign each other; called again, go over to it.

    The old key stays in use until the silo's federation file has the new one.
    """
    key = settings.key
    if key is None or not key.exists():
        raise FairSiloError("the settings name no private key that exists: make one with keygen")
    new, file = key.with_name(f"{key.name}.new"), beside / f"{settings.name}-new-key.json"
    if not new.exists():
        locked = is_locked(key.read_bytes())
        make_key(new, settings.name, os.environ[PASSPHRASE] if locked else "")
    old_key, new_key = load_node_key(key), load_node_key(new)
    agreed = read_federation_file(settings.federation)
    named = _party(agreed, settings.name).public_key
    if public_bytes(read_public_key(settings.name, named)) == public_bytes(new_key.public_key()):
        kept = key.with_name(f"{key.name}.old-{agreed.fingerprint[:8]}")
        # There is a key at every moment, whenever this is interrupted.
        with contextlib.suppress(FileExistsError):
            os.link(key, kept)
        public = new.with_name(f"{new.name}.pub")
        if public.exists():
            public.replace(key.with_name(f"{key.name}.pub"))
        new.replace(key)
        file.unlink(missing_ok=True)
        return Rotation(file, done=True)
    line = f"{public_bytes(new_key.public_key()).decode()} {settings.name}"
    past = change(old_key, new_key).model_dump()
    content = {"silo": settings.name, "public_key": line, "past": past}
    write_atomic(file, (json.dumps(content, indent=1) + "\n").encode())
    return Rotation(file, done=False)


def _party(agreed: FederationFile, name: str) -> Member:
    """The silo or witness of that name."""
    named = {one.name: one for one in agreed.parties}
    if name not in named:
        raise FairSiloError(
            f"the federation file has no silo or witness {name!r}: it has {', '.join(named)}"
        )
    return named[name]


def _read_change(file: Path) -> tuple[str, str, Past]:
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(LARGEST))
        return str(found["silo"]), str(found["public_key"]), Past(**found["past"])
    except (OSError, ValueError, KeyError, TypeError):
        raise FairSiloError(
            f"{file} cannot be read: take the file that `fairsilo flower rotate-key` wrote at the "
            "silo"
        ) from None


def _replace(space: Workspace, old: Member, new: tuple[Member, ...]) -> FederationFile:
    """One party becomes another, or none."""
    agreed = space.agreed
    silos, witnesses = (
        tuple(after for one in all_ for after in (new if one == old else (one,)))
        for all_ in (agreed.silos, agreed.witnesses)
    )
    return _go_over(space, silos, witnesses)


def _go_over(
    space: Workspace, silos: tuple[Member, ...], witnesses: tuple[Member, ...]
) -> FederationFile:
    values: dict[str, Any] = dict(space.agreed)
    try:
        agreed = FederationFile(**{**values, "silos": silos, "witnesses": witnesses})
    except ValidationError as error:
        raise FairSiloError(f"the federation file cannot be changed: {_first(error)}") from None
    next_file(space, agreed)
    return agreed


def _first(error: ValidationError) -> str:
    return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
