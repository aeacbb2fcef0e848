"""A run as it goes: a line of JSON for everything that happens, and where it stands now.

The process that trains appends lines and never waits for a reader. Whoever looks (the command line,
`fairsilo flower status`, the live page) reads the file, at any time and from any process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from fairsilo.data.files import FULL
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from fairsilo.solver import Record

Event = dict[str, Any]
PROGRESS = "progress.jsonl"
AUDIT_PROGRESS = "audit-progress.jsonl"
"""That of an audit, which may be written into the folder of the run that it measures."""
LOCK = ".lock"
BUSY = "another run is at work in {folder}{process}: wait for it, or give another `out`"
PHASES = ("start", "connect", "set-up", "rounds", "evaluation", "writing")
"""The parts of a run, in order; after a loss or when it is resumed a run goes back."""
ENDS = ("finished", "failed", "stopped")


class Progress:
    """Appends lines to a progress file; each is written whole or not at all."""

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        if fresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)

    def say(self, event: Event) -> None:
        """Append a line, with the time."""
        line = json.dumps({**event, "time": time.time()}) + "\n"
        try:
            with self.path.open("ab", buffering=0) as stream:
                stream.write(line.encode())
        except OSError as error:
            why = f"cannot write {self.path} ({error.strerror}); choose another folder"
            told = full_disk(self.path.parent) if is_full(error) else why
            raise FairSiloError(told) from error


class Tail:
    """Reads a progress file from where it was left."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path, self.offset = path, offset

    def read(self) -> list[Event]:
        """The lines that are new; from the beginning where the file is another one."""
        try:
            with self.path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self.offset:
                    self.offset = 0
                stream.seek(self.offset)
                whole = stream.read().rpartition(b"\n")[:2]
        except OSError:
            return []
        found = b"".join(whole)
        self.offset += len(found)
        events = []
        for line in found.splitlines():
            with contextlib.suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict) and "event" in event]


def round_event(number: int, record: Record) -> Event:
    """A round as the solver saw it."""
    gaps = [float(d) for d in np.asarray(record.d)]
    return {
        "event": "round",
        "round": number,
        "loss": float(record.loss),
        "d": max(map(abs, gaps), default=None),
        "gaps": gaps,
        "multipliers": [float(mu) for mu in np.asarray(record.mu)],
        "residual": float(record.residual),
    }


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk is what an error comes from."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        error = error.__cause__
    return False


def full_disk(folder: Path) -> str:
    """What to do about a full disk."""
    return f"the disk that holds {folder} is full: free space, then `resume`"


@contextlib.contextmanager
def locked(folder: Path, who: str, busy: str = BUSY) -> Iterator[None]:
    """Hold the folder as `who` (the command, the server), one at a time; kept until the process
    ends, however it does. `busy`: what is said where another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{LOCK}-{who}").open("a+") as stream:
        if not _taken(stream):
            stream.seek(0)
            held = stream.read().strip()
            process = f" (process {held})" if held else ""
            raise FairSiloError(busy.format(folder=folder, process=process))
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


def _taken(stream: TextIO) -> bool:
    """Whether a lock could be taken, within the moment for which `held` may have it."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def held(folder: Path, who: str) -> bool | None:
    """Whether a process holds the folder as `who`; None where none ever did.

    A lock tells this of processes in another container, too, and its end is never missed, while
    the number of a process may be another one's by now.
    """
    try:
        stream = (folder / f"{LOCK}-{who}").open()
    except OSError:
        return None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def standing(events: Iterable[Event]) -> dict[str, Any]:
    """Where a run stands, from its events: what `fairsilo flower status` and the live page show."""
    state = _blank()
    for event in events:
        advance(state, event)
    return state


def _blank() -> dict[str, Any]:
    return {
        "about": {}, "phase": "", "doing": "", "silos": {}, "rounds": [], "phases": {},
        "notes": [], "end": None, "began": None, "time": None, "pid": None, "bytes": [0, 0],
        "final": [], "why": "", "asked": [], "stopping": False,
    }  # fmt: skip


def advance(state: dict[str, Any], event: Event) -> None:
    """Take one more event into account."""
    kind, at = str(event["event"]), float(event.get("time", 0.0))
    if kind == "submitting" and not event.get("resume"):
        state.update(_blank())
    state["began"] = state["began"] or at
    phase = event.get("phase", state["phase"])
    if state["phase"] and state["time"] and not state["end"]:
        before = state["phases"].get(state["phase"], 0.0)
        state["phases"][state["phase"]] = before + max(at - state["time"], 0.0)
    state["phase"], state["time"], state["end"] = phase, at, None
    state["pid"] = event.get("pid", state["pid"])
    _take(state, kind, event)
    if kind in ENDS:
        state["end"] = {"how": kind, "why": event.get("why", "")}
        state["doing"] = ""


def interruptions(events: Iterable[Event]) -> list[str]:
    """Why a run that is started again was interrupted, each time since it began."""
    found, last = list[str](), ""
    for event in events:
        kind = str(event["event"])
        if kind in ("submitting", "started"):
            if last == "started":
                # Of a process that was killed nobody told why.
                found.append("the server's process ended")
            found = found if kind == "started" or event.get("resume") else []
            last = kind
        elif kind in ("interrupted", *ENDS):
            # The command's word of the same end counts for more than the process's own.
            found = [
                *(found if last in ("submitting", "started") else found[:-1]),
                event.get("why", ""),
            ]
            last = kind
    return found + ["the server's process ended"] * (last == "started")


def until(state: dict[str, Any], now: float) -> dict[str, Any]:
    """A run that goes on, at a time after its last event: its clock and its phase go on, too."""
    if state["end"] or not state["time"]:
        return state
    later, phases = max(now, state["time"]), dict(state["phases"])
    if state["phase"]:
        phases[state["phase"]] = phases.get(state["phase"], 0.0) + later - state["time"]
    return {**state, "time": later, "phases": phases}


def _asking(event: Event) -> str:
    of = f" of {event['of']}" if event.get("of") else ""
    return f"{event['phase']}: question {event['number']}{of} ({event['kind']})"


def _round(event: Event) -> str:
    gap = "" if event["d"] is None else f"  largest |D| {event['d']:.5f}"
    silos = f"  {event['silos']} silos  {event['seconds']:.1f} s" if "silos" in event else ""
    return (
        f"round {event['round']}  loss {event['loss']:.6f}{gap}  residual "
        f"{event['residual']:.1e}{silos}"
    )


def _missing(event: Event) -> str:
    told = "; ".join(f"silo {name} {why}" for name, why in event["silos"].items())
    return f"{told}: waiting for up to {event['seconds']:.0f} s (`wait_lost`)"


_WORDS: dict[str, Callable[[Event], str]] = {
    "made": lambda event: "working folder, keys and tables are made",
    "superlink": lambda event: "the SuperLink is up",
    "registered": lambda event: "the silos' keys are registered",
    "up": lambda event: "SuperLink and nodes are started",
    "submitting": lambda event: "asking the SuperLink to start the run",
    "submitted": lambda event: "the SuperLink starts the server's process",
    "started": lambda event: "the server's process is up",
    "waiting": lambda event: f"{event['silos']} of {event['of']} silos are connected",
    "introducing": lambda event: "asking the silos for their version and federation file",
    "silo": lambda event: f"silo {event['silo']} {event['why']}" if event["why"] else "",
    "approval": lambda event: (
        "; ".join(f"silo {name} is waiting for its owner's approval" for name in event["silos"])
        or "the owners of all silos have approved"
    ),
    "asking": _asking,
    "round": _round,
    "missing": _missing,
    "back": lambda event: f"{', '.join(event['silos'])}: back after {event['seconds']:.0f} s",
    "lost": lambda event: f"silo {event['silo']} is left out: {event['why']}",
    "interrupted": lambda event: event["why"],
    "stopping": lambda event: "the run is being ended",
    "writing": lambda event: "writing the run folder",
    "finished": lambda event: "",
    "failed": lambda event: event["why"],
    "stopped": lambda event: event["why"],
    "comparing": lambda event: "everything is stopped; simulating the same rows",
}
MARKS = {
    "silo": "bad", "missing": "unsure", "back": "good", "lost": "bad", "interrupted": "unsure",
    "failed": "bad", "stopped": "unsure",
}  # fmt: skip
"""Events that are remembered as notes, and how grave they are."""
STATES = {
    "asking": "answering", "asked": "answered", "missing": "missing", "back": "connected",
    "approval": "waits for its owner",
}  # fmt: skip
"""What the silos that an event names are doing from then on."""
AT_WORK = ("answering", "waits for its owner")
IDLE = "idle"
"""What a silo does that has answered while another one is waited for."""


def words(event: Event) -> str:
    """An event in words; nothing for what nobody needs to see."""
    make = _WORDS.get(event["event"])
    return make(event) if make else ""


def _take(state: dict[str, Any], kind: str, event: Event) -> None:
    """What an event changes beside the time."""
    text = words(event)
    state["doing"] = text or state["doing"]
    if kind in ("stopping", "submitting", "started"):
        state["stopping"] = kind == "stopping"
    # What the server sees of its own end is no fault of a silo's: the command says why it ended.
    if kind in MARKS and text and not (state["stopping"] and kind != "stopped"):
        state["notes"].append({"time": event.get("time"), "text": text, "mark": MARKS[kind]})
    state["final"] = list(event.get("notes", ()))
    if kind in ("started", "interrupted", *ENDS):
        state["why"] = event.get("why", "")
    state["about"] |= event.get("about", {})
    _take_silos(state, kind, event)
    _take_waits(state, kind, event)
    if kind == "asked":
        up, down = state["bytes"]
        state["bytes"] = [up + event.get("up", 0), down + event.get("down", 0)]
    if kind == "round":
        kept = {k: v for k, v in event.items() if k not in ("event", "phase")}
        earlier = [one for one in state["rounds"] if one["round"] < event["round"]]
        state["rounds"] = [*earlier, kept]


def _take_silos(state: dict[str, Any], kind: str, event: Event) -> None:
    silos, at = state["silos"], event.get("time")
    if kind == "started":
        for name in event.get("silos", ()):
            silos.setdefault(name, {"state": "expected"})
    if kind == "waiting":
        for name, one in silos.items():
            there = name in event.get("names", ())
            one.update(state="connected" if there else "not connected", since=at)
    if kind in STATES:
        for name in event.get("silos", ()):
            why = event["silos"][name] if kind == "missing" else ""
            silos.setdefault(name, {}).update(state=STATES[kind], since=at, why=why)
    if kind == "silo":
        known = {k: event[k] for k in ("fairsilo", "code", "fits", "why") if k in event}
        silos.setdefault(event["silo"], {"state": "connected"}).update(known)
    if kind == "lost":
        silos.setdefault(event["silo"], {}).update(state="left out", why=event["why"], since=at)


def _take_waits(state: dict[str, Any], kind: str, event: Event) -> None:
    """Who idles while others are waited for, and who is asked again when they are there."""
    if kind in ("asking", "asked"):
        state["asked"] = list(event.get("silos", ())) if kind == "asking" else []
    if kind not in ("approval", "missing", "back"):
        return
    named, at = set(event["silos"]), event.get("time")
    if kind != "back" and named:
        # Whoever has not answered in time may still be at it.
        others = set(state["asked"]) - named - set(event.get("busy", ()))
        idle = [name for name in others if state["silos"][name]["state"] in AT_WORK]
        for name in idle:
            state["silos"][name].update(state=IDLE, since=at)
        return
    # Behind masks everybody is asked the next step, or anew; in the clear only those waited for.
    over = ("waits for its owner", *((IDLE,) if state["about"].get("secure") else ()))
    for name, one in state["silos"].items():
        if name in named or one.get("state") in over:
            asked = name in state["asked"]
            one.update(state="answering" if asked else "connected", since=at)


def time_left(state: dict[str, Any]) -> float | None:
    """Seconds until the end, where the number of rounds is fixed; None where nobody can know."""
    total, rounds = state["about"].get("rounds"), state["rounds"]
    if not total or len(rounds) < 2 or state["end"]:
        return None
    pace: float = statistics.median(one["seconds"] for one in rounds[-9:] if "seconds" in one)
    return max(float(total) - int(rounds[-1]["round"]) + 1, 1.0) * pace
