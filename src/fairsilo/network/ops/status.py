"""`fairsilo flower status`: the silos and the run, as the SuperLink and the run's folder say.

Nothing is asked of a silo unless it is wanted (`ask_silos`): version, code and whether its files
fit are what it said at the beginning of the last run.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import ending
from fairsilo.network.ops.control import nodes
from fairsilo.network.ops.follow import gone, run_and_follow
from fairsilo.network.ops.runs import LAST, RunConfig, controlled
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import PROGRESS, Event, Tail, standing, time_left, until

ANSWER = 30.0
"""Seconds that a silo has to say who it is."""

LOOK = 0.5
"""Seconds between two looks whether a run was started."""


def last_run(space: Workspace) -> Path | None:
    """The progress file of the run that was started last in a working folder."""
    try:
        last = json.loads((space.folder / LAST).read_text())
        return Path(str(last["out"])) / str(last["progress"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def await_run(space: Workspace) -> Path:
    """The same, once there is one."""
    while (path := last_run(space)) is None:
        time.sleep(LOOK)
    return path


def status(space: Workspace, run: Path | None = None) -> dict[str, Any]:
    """What is known now; `run` is a run folder, else that of the last run."""
    path = last_run(space) if run is None else run / PROGRESS
    there = path is not None and path.exists()
    if run is not None and not there:
        raise FairSiloError(f"{run} has no {PROGRESS}: give the `out` of a run over a network")
    state = standing(Tail(path).read()) if path is not None else standing(())
    up, trouble = controlled(space), ""
    seen = {}
    if up:
        try:
            seen = nodes(space)
        except FairSiloError as error:
            up, trouble = False, str(error)
    now = time.time()
    ended = path is not None and died(path.parent, state)

    def about(name: str) -> dict[str, Any]:
        own, node = state["silos"].get(name, {}), seen.get(name)
        return {
            "name": name,
            "registered": node is not None if up else None,
            "connected": node.online if node is not None else (False if up else None),
            "last_seen": node.seen or None if node is not None else None,
            "seconds_ago": max(now - node.seen, 0.0) if node and node.seen else None,
            "fairsilo": own.get("fairsilo"),
            "code": own.get("code"),
            "fits": own.get("fits"),
            "why": own.get("why", ""),
            "doing": "" if ended or state["end"] else own.get("state", ""),
        }

    return {
        "federation": space.agreed.name,
        "fingerprint": space.agreed.fingerprint,
        "superlink": {"up": up, "control": space.control if up else "", "why": trouble},
        "certificates": ending(space.certificates),
        "silos": [about(name) for name in space.agreed.names],
        "witnesses": [about(one.name) for one in space.agreed.witnesses],
        "run": about_run(state, path.parent, ended) if there and path is not None else None,
    }


def died(folder: Path, state: dict[str, Any]) -> bool:
    """Whether the process of a run that has not ended is gone."""
    return not state["end"] and bool(state["pid"]) and gone(folder, int(state["pid"]))


def about_run(state: dict[str, Any], folder: Path, dead: bool) -> dict[str, Any]:
    """A run in few words and numbers, now."""
    state = state if dead else until(state, time.time())
    last = state["rounds"][-1] if state["rounds"] else {}
    names = state["about"].get("constraints", ())
    how = "interrupted" if dead else (state["end"] or {"how": "running"})["how"]
    return {
        "folder": str(folder),
        "how": how,
        "phase": state["phase"],
        "doing": "" if dead else state["doing"],
        "round": last.get("round"),
        "loss": last.get("loss"),
        "largest_gap": last.get("d"),
        "gaps": dict(zip(names, last.get("gaps", ()), strict=False)),
        "multipliers": last.get("multipliers"),
        "seconds": state["time"] - state["began"] if state["began"] else 0.0,
        "seconds_by_phase": state["phases"],
        "seconds_left": time_left(state),
        "bytes_up": state["bytes"][0],
        "bytes_down": state["bytes"][1],
        "notes": state["final"] or [note["text"] for note in state["notes"]],
        "about": state["about"],
    }


def ask_silos(space: Workspace, watch: Callable[[Event], None], wait: float) -> dict[str, Any]:
    """The same, with what the silos that are connected say of themselves now."""
    with tempfile.TemporaryDirectory(prefix="fairsilo-") as folder:
        config = RunConfig(Path(folder) / "asked", introduce=True, wait=wait, timeout=ANSWER)
        heard: list[Event] = []

        def take(event: Event) -> None:
            heard.append(event)
            watch(event)

        try:
            run_and_follow(space, replace(config, wait_lost=0.0), take)
        except FairSiloError:
            # A silo that does not fit ends the run: that is what is shown.
            if not any(event["event"] == "silo" for event in heard):
                raise
    found = status(space)
    said = {event["silo"]: event for event in heard if event["event"] == "silo"}
    for silo in (*found["silos"], *found["witnesses"]):
        own = said.get(silo["name"], {})
        silo |= {key: own.get(key) for key in ("fairsilo", "code", "fits", "why")}
    return found
