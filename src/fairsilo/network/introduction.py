"""A silo says who it is before anything is asked of it: version, code, federation file, key.

The step costs a silo no row, no answer of its limit and no privacy. The server compares what comes
back with its own before the first question, so that what does not fit is named where it is: behind
masks, a silo with another federation file would make the others refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairsilo import __version__
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FederationFile, read_federation_file, readable
from fairsilo.network.ops.bundle import code_digest
from fairsilo.network.settings import read_settings
from fairsilo.network.transport import Fault, Transport
from fairsilo.network.vouch import unconfirmed
from fairsilo.network.wire import VERSION, Record
from fairsilo.secagg import load_node_key
from fairsilo.secagg.keys import public_bytes, read_public_key

STEP = "introduce"
TEXT = 200
"""Characters that are read of a silo's word about itself."""


def introduce(path: object) -> Record:
    """At the silo: its answer. What cannot be read is left out, so that the rest still comes."""
    about: dict[str, Any] = {"fairsilo": __version__, "code": code_digest()}
    try:
        settings = read_settings(Path(str(path)))
        agreed = read_federation_file(settings.federation)
        about |= {"name": settings.name, "fingerprint": agreed.fingerprint}
        about["confirmed"] = not unconfirmed(settings, agreed)
        members = {one.name: one.public_key for one in agreed.parties}
        if settings.key is not None and settings.name in members:
            own = public_bytes(load_node_key(settings.key).public_key())
            about["key"] = own == public_bytes(
                read_public_key(settings.name, members[settings.name])
            )
    except FairSiloError:
        about["unreadable"] = True
    content = json.dumps(about).encode()
    return {"version": VERSION, "step": STEP, "content": content, "refused": ""}


def introductions(
    agreed: FederationFile,
    post: Transport,
    silos: Sequence[str],
    timeout: float,
    say: Callable[[dict[str, Any]], None],
) -> None:
    """At the server: ask everyone, tell what came, and stop where a silo cannot take part."""
    letter: Record = {"version": VERSION, "step": STEP}
    found = post.exchange(dict.fromkeys(silos, letter), timeout)
    wrong = {}
    for name in silos:
        about = _read(found[name])
        why = misfit(agreed, name, about)
        known: dict[str, Any] = {k: about[k] for k in ("fairsilo", "code") if k in about}
        same = {"same_code": about["code"] == code_digest()} if "code" in about else {}
        # Of a silo that is gone nobody knows.
        fits = None if "gone" in about else not why
        say({"event": "silo", "silo": name, "fits": fits, "why": why, **known, **same})
        if fits is False:
            wrong[name] = why
    if wrong:
        raise FairSiloError(f"nothing was asked yet: {_together(wrong)}")


def _together(wrong: dict[str, str]) -> str:
    """What is wrong with whom; once where it is the same with several, as after an upgrade."""
    found: dict[str, list[str]] = {}
    for name, why in wrong.items():
        found.setdefault(why, []).append(name)
    return "; ".join(
        f"silo {names[0]} {why}" if len(names) == 1 else f"silos {', '.join(names)}: each {why}"
        for why, names in found.items()
    )


def misfit(agreed: FederationFile, name: str, about: dict[str, Any]) -> str:
    """Why a silo cannot take part, by its own word; nothing where it can."""
    if "gone" in about or "wrong" in about:
        return str(about.get("gone") or about["wrong"])
    if about.get("fairsilo") != __version__ or about.get("code") != code_digest():
        theirs, ours = str(about.get("code", ""))[:12], code_digest()[:12]
        return (
            f"has fairsilo {about.get('fairsilo')} (code {theirs}) and the coordinator has "
            f"{__version__} (code {ours}): install the same everywhere"
        )
    if about.get("unreadable"):
        return (
            "cannot read its settings, federation file or key; `fairsilo flower check` there says "
            "why"
        )
    if about.get("fingerprint") != agreed.fingerprint:
        theirs = readable(str(about.get("fingerprint", "")))[:14]
        return (
            f"has another federation file (its fingerprint begins {theirs}, the coordinator's "
            f"{readable(agreed.fingerprint)[:14]}): send it this one, and compare by telephone"
        )
    if about.get("name") != name:
        return f"calls itself {about.get('name')!r} in its settings: correct its name there"
    wrong = {
        "key": "signs with another key than the federation file has for it: name its own key there",
        "confirmed": "has not confirmed the keys of all other silos, or confirmed others: "
        "`fairsilo flower check` there shows which, and `fairsilo flower confirm` confirms",
    }
    return next((why for what, why in wrong.items() if about.get(what) is False), "")


def _read(found: Record | Fault) -> dict[str, Any]:
    """What a silo said of itself, shortened; else why there is nothing."""
    if isinstance(found, Fault):
        return {"gone" if found.gone else "wrong": found.why}
    try:
        about = json.loads(bytes(found["content"]))
        short = {str(k): v[:TEXT] if isinstance(v, str) else bool(v) for k, v in about.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {"wrong": "answered with something else than who it is"}
    return {k: v for k, v in short.items() if k not in ("gone", "wrong")}
