"""What a silo's owner said yes or no to, in a file of the silo's own beside its settings.

decided   by federation file ("listed") or by federation file and run ("ask"): yes or no
waiting   runs that asked and were neither allowed nor refused yet, and when they asked last
about     by run that its owner was asked for, the training that it names, or that it is an audit
models    digests of models whose audit the owner was asked for, allowed or refused (`audited`)
members   by name, the key of each other silo that the owner confirmed (`vouch`)

The server can only wait: a yes is written at the silo, by `fairsilo flower approve`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairsilo.errors import FairSiloError
from fairsilo.network.ledger import locked, write
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Refusal

if TYPE_CHECKING:
    from fairsilo.network.federation_file import FederationFile

WAITS = "it is waiting for its owner's approval (`fairsilo flower approve` at the silo)"
REFUSED = "its owner said no to this run"
MOST = 50
"""Waiting runs that are kept, the last to ask: whoever can start runs must not fill the disk."""
LATELY = 180.0
"""Seconds after its last question for which a run counts as waiting. It asks every 3 s, or once
every `timeout` (120 s) where another silo is asked with this one and does not answer."""
MODEL = "model "
"""Before the digest of a model, where it stands among fingerprints."""
SHORTEST = 8
"""Characters of a fingerprint that are enough to name it."""

Kept = dict[str, dict[str, Any]]


class Held(Refusal):
    """The run waits for the owner; `first`: it was not known to wait before."""

    first = False


def permit(
    settings: Settings, agreed: FederationFile, run: str, purpose: str, training: object = ""
) -> None:
    """Go on where the owner said yes; else note that the run waits, or refuse it."""
    if settings.approve == "always":
        return
    key = _key(settings, agreed.fingerprint, run)
    yes = read(settings)["decided"].get(key)
    if yes:
        about = str(training)[:64] or "audit" * (purpose == "audit")
        if settings.approve == "ask" and about:
            _hold_to(settings, key, about)
        return
    if yes is False:
        raise Refusal(REFUSED)
    held = Held(WAITS)
    with locked(settings.approvals):
        kept = read(settings)
        if key in kept["decided"]:
            # Just now: the next question finds it.
            raise held
        before, now = kept["waiting"].pop(key, {}), datetime.now(UTC).isoformat(timespec="seconds")
        held.first = not _lately(before)
        since = now if held.first else before["since"]
        one = {"fingerprint": agreed.fingerprint, "run": run, "for": purpose, "since": since}
        newest = dict(list(kept["waiting"].items())[1 - MOST :])
        write_kept(settings, {**kept, "waiting": {**newest, key: {**one, "asked": now}}})
    raise held


def _hold_to(settings: Settings, key: str, about: str) -> None:
    """A run stays what its owner was asked for, also where the silo's program was started anew and
    the server gives another one its number."""
    if read(settings)["about"].get(key) == about:
        return
    with locked(settings.approvals):
        kept = read(settings)
        if kept["about"].setdefault(key, about) != about:
            raise Refusal("its owner said yes to a run of this number that was another one")
        write_kept(settings, kept)


def waiting(settings: Settings) -> list[dict[str, Any]]:
    """The runs that wait now: they asked lately, and were neither allowed nor refused yet."""
    return [one for one in read(settings)["waiting"].values() if _lately(one)]


def _lately(one: Mapping[str, Any]) -> bool:
    """Whether a run asked so lately that it is still there."""
    try:
        asked = datetime.fromisoformat(one["asked"])
    except KeyError:
        return False
    return (datetime.now(UTC) - asked).total_seconds() < LATELY


def decide(settings: Settings, agreed: FederationFile, name: str, yes: bool = True) -> list[str]:
    """Write down the owner's yes or no, and return the keys that it is about.

    `name`: the beginning of a fingerprint, in groups or not, or the number of a waiting run.
    """
    wanted = "".join(name.split()).lower()
    with locked(settings.approvals):
        kept = read(settings)
        about = {
            key: one["fingerprint"]
            for key, one in kept["waiting"].items()
            if wanted == one["run"]
            or (settings.approve != "ask" and one["fingerprint"].startswith(wanted))
        }
        if settings.approve != "ask" and agreed.fingerprint.startswith(wanted):
            about[agreed.fingerprint] = agreed.fingerprint
        models = [one for one in kept["models"] if one.startswith(wanted)]
        about |= {f"{MODEL}{one}": one for one in models}
        if not about or len(set(about.values())) > 1 or _vague(wanted, kept):
            raise FairSiloError(
                f"{name!r} is neither a waiting run nor the federation file of this silo, nor a "
                "model whose audit was asked for: give the number of a run, or the fingerprint or "
                f"its first {SHORTEST} characters, as `fairsilo flower approve` shows them"
            )
        said = {**kept["models"], **dict.fromkeys(models, yes)}
        decided = dict.fromkeys((key for key in about if not key.startswith(MODEL)), yes)
        decided = {**kept["decided"], **decided}
        left = {key: one for key, one in kept["waiting"].items() if key not in about}
        write_kept(settings, {**kept, "decided": decided, "waiting": left, "models": said})
    return sorted(about)


def _vague(wanted: str, kept: Kept) -> bool:
    """Whether this is too short to name a fingerprint, and no run."""
    return len(wanted) < SHORTEST and wanted not in {one["run"] for one in kept["waiting"].values()}


def confirmed(settings: Settings, agreed: FederationFile) -> bool | None:
    """Whether the owner said yes or no to this federation file; None: neither yet."""
    if settings.approve == "always":
        return True
    found: bool | None = read(settings)["decided"].get(agreed.fingerprint)
    return found


def asked_model(settings: Settings, digest: str) -> bool:
    """Whether the owner allowed audits of a model; what was never asked for is noted."""
    with locked(settings.approvals):
        kept = read(settings)
        if digest not in kept["models"]:
            undecided = [one for one, yes in kept["models"].items() if yes is None]
            dropped = undecided[: max(len(undecided) + 1 - MOST, 0)]
            models = {k: v for k, v in kept["models"].items() if k not in dropped}
            write_kept(settings, {**kept, "models": {**models, digest: None}})
        return bool(kept["models"].get(digest))


def read(settings: Settings) -> Kept:
    """The file; an unreadable one is never taken for empty."""
    path = settings.approvals
    try:
        found = json.loads(path.read_bytes())
        first = {name: dict(found[name]) for name in ("decided", "waiting")}
        return first | {name: dict(found.get(name, {})) for name in ("members", "models", "about")}
    except FileNotFoundError:
        return {"decided": {}, "waiting": {}, "members": {}, "models": {}, "about": {}}
    except OSError as error:
        raise FairSiloError(f"cannot read {path} ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise FairSiloError(
            f"{path} is damaged: remove it and confirm the federation file again"
        ) from None


def _key(settings: Settings, fingerprint: str, run: str) -> str:
    return f"{fingerprint} {run}" if settings.approve == "ask" else fingerprint


def write_kept(settings: Settings, kept: Kept) -> None:
    """Write the file; the caller holds its lock."""
    write(settings.approvals, dict(kept))
