"""The list of all that left a silo: a line of JSON for every reply, written before it leaves.

It says when, in which run, to which question, how many numbers and bytes, their digest, what
differential privacy cost, and why the silo refused; never a value. Lines are only ever added.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.ledger import unwritten
from fairsilo.network.settings import Settings
from fairsilo.network.transport import shown, size_of
from fairsilo.network.wire import Record

Line = dict[str, Any]
REMARK = "remark"
"""The kind of a line that tells the owner something; nothing of it left."""


def note(settings: Settings, run: str, **values: Any) -> None:
    """Add a line and wait until it is on the disk, or refuse."""
    line = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "silo": settings.name}
    append(settings.left, {**line, "run": run, **values})


def reply_line(record: Record, reply: Record, cost: float) -> Line:
    """What is noted of a reply to a record; `cost`: of its releases, as in `dp.budget`."""
    own = {key.removeprefix("ask."): one for key, one in record.items() if key.startswith("ask.")}
    asked = {**record, **own, "step": record.get("step")}
    number = asked.get("number", asked.get("round", asked.get("first", 0)))
    content: bytes = reply.get("vector") or reply.get("content") or b""
    vector = asked.get("step") in (None, "masked")
    return {
        "kind": shown(asked.get("kind") or asked["step"] or ""),
        "step": shown(asked["step"] or ""),
        "number": number if isinstance(number, int) else 0,
        "federation": shown(asked.get("fingerprint", "")),
        "numbers": len(content) // 8 if vector else 0,
        "bytes": size_of(reply),
        "digest": hashlib.sha256(content).hexdigest() if content else "",
        "dp_cost": cost,
        "refused": shown(reply.get("refused", "")),
    }


def append(path: Path, line: Line) -> None:
    """One line more; a part of one is taken back where the disk is full."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "rb+", 0) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            size = stream.seek(0, os.SEEK_END)
            whole = not size or os.pread(stream.fileno(), 1, size - 1) == b"\n"
            text = ("" if whole else "\n") + json.dumps(line) + "\n"
            try:
                if stream.write(text.encode()) < len(text.encode()):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(stream.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    stream.truncate(size)
                raise
    except OSError as error:
        raise unwritten(error) from None


def read(path: Path, run: str | None = None) -> list[Line]:
    """The lines, of one run where it is named; one that was cut off by a power cut is left out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FairSiloError(f"cannot read {path} ({error.strerror})") from None
    return [line for line in parsed(content) if run is None or line["run"] == run]


def parsed(content: bytes) -> Iterator[Line]:
    """The whole lines in some bytes of the file."""
    for text in content.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and "run" in line:
            yield line
