"""A run from its start to its end, as the command that started it sees it."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fairsilo.errors import FairSiloError
from fairsilo.network.journal import resumable
from fairsilo.network.ops.control import run_ended
from fairsilo.network.ops.processes import interruptible, is_alive
from fairsilo.network.ops.runs import (
    PATIENCE,
    RunConfig,
    absent,
    controlled,
    stop_run,
    submit,
)
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import PROGRESS, Event, Progress, Tail, full_disk, held, locked

JOURNAL = "journal"
LEAVING = 15.0
"""Seconds that the server's process has to end when its run was ended."""
ROOM = 2**20
"""With fewer bytes left on it a disk counts as full."""


class Interrupted(FairSiloError):
    """The run's process ended before the run did: resumed, it goes on."""

    told = False
    """Whether the process itself wrote so into the progress file."""
    run = ""
    """The run's number, where it has one."""


def run_and_follow(
    space: Workspace,
    config: RunConfig,
    watch: Callable[[Event], None],
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """A run from its start to its end; Control-C and SIGTERM end it at the SuperLink, too.

    Where its process ends before it does, it is started again and goes on: after a pause that the
    SuperLink took for its end, and after a SuperLink that was away.
    """
    with interruptible(), locked(config.out, "command"):
        check_folder(config)
        entries, began = -1, time.time()
        deadline = time.monotonic()
        while True:
            try:
                _once(space, config, watch, alive)
                return
            except Interrupted as error:
                if _finished(config, began):
                    return
                known = len(list((config.out / JOURNAL).glob("*.safetensors")))
                if known > entries:
                    # Something was done since: the wait begins anew.
                    entries, deadline = known, time.monotonic() + config.wait_lost
                if (
                    time.monotonic() >= deadline
                    or not alive()
                    or _was_stopped(space, config, error.run)
                ):
                    raise
                why = str(error).partition(": use")[0]
                watch({"event": "interrupted", "why": f"{why}; the run is started again"})
                if not error.told:
                    Progress(config.progress).say({"event": "interrupted", "why": why})
                _await_again(space, config, deadline)
            config = replace(config, again=True, resume=resumable(config.out / JOURNAL))


def follow(
    space: Workspace,
    run: str,
    out: Path,
    watch: Callable[[Event], None],
    alive: Callable[[], bool] = lambda: True,
    progress: Path | None = None,
) -> None:
    """Hand on what the ServerApp tells until it has finished; a failure is an error here."""
    tail, pid = Tail(progress or out / PROGRESS), 0
    events = tail.read()
    begins = [k for k, event in enumerate(events) if event["event"] == "submitting"]
    events = events[begins[-1] :] if begins else events
    quiet_since = time.monotonic()
    while True:
        for event in events:
            pid = event.get("pid", pid)
            if event["event"] not in ("submitting", "interrupted"):
                watch(event)
            if event["event"] == "finished":
                return
            if event["event"] == "failed":
                raise FairSiloError(event["why"])
            if event["event"] == "interrupted":
                ended = Interrupted(f"{event['why']}: use `resume` to go on")
                ended.told = True
                raise ended
            quiet_since = time.monotonic()
        dead = pid and gone(out, pid)
        events = tail.read()
        if events:
            continue
        if dead and shutil.disk_usage(out).free < ROOM:
            raise FairSiloError(full_disk(out))
        if dead:
            raise Interrupted(
                "the server's process ended before the run did: use `resume` to go on"
            )
        if not alive() or (not pid and time.monotonic() - quiet_since > PATIENCE):
            raise Interrupted(
                f"run {run} did not come up: look at the SuperLink's output, then use `resume`"
            )
        time.sleep(0.2)


def gone(folder: Path, pid: int) -> bool:
    """Whether the process of the run in a folder has ended; a training without a network
    holds no lock there, and goes by its number."""
    at_work = held(folder, "server")
    return not (is_alive(pid) if at_work is None else at_work)


def check_folder(config: RunConfig) -> None:
    """Refuse a folder that has a finished run, an interrupted one, or one that is at work."""
    trains = not (config.audit or config.columns or config.introduce)
    if trains and not (config.overwrite or config.resume):
        if (config.out / "model.json").exists():
            raise FairSiloError(
                f"{config.out} has a finished run: give another `out`, or `overwrite` to replace it"
            )
        if resumable(config.out / JOURNAL):
            raise FairSiloError(
                f"{config.out} has an interrupted run: use `resume` to go on with it, or "
                "`overwrite` to begin anew, without what it has asked"
            )
    with locked(config.out, "server"):
        pass


def _finished(config: RunConfig, began: float) -> bool:
    """Whether a training that came up late, or died after its last word, has ended after all."""
    model = config.out / "model.json"
    audits = config.audit or config.columns or config.introduce
    return (
        not audits
        and model.exists()
        and model.stat().st_mtime >= began
        and not resumable(config.out / JOURNAL)
    )


def _once(
    space: Workspace,
    config: RunConfig,
    watch: Callable[[Event], None],
    alive: Callable[[], bool],
) -> None:
    run = ""
    try:
        watch({"event": "submitting"})
        run = submit(space, config)
        follow(space, run, config.out, watch, alive, config.progress)
    except Interrupted as error:
        error.run = run
        raise
    except KeyboardInterrupt:
        with contextlib.suppress(FairSiloError):
            Progress(config.progress).say({"event": "stopping"})
        if run:
            stop_run(space, run)
        with contextlib.suppress(FairSiloError):
            _await_again(space, config, time.monotonic() + LEAVING)
        why = "interrupted by its operator"
        with contextlib.suppress(FairSiloError):
            Progress(config.progress).say({"event": "stopped", "why": why})
        ended = "the run was ended at the SuperLink, too"
        if not run:
            ended = "the run may have started: `fairsilo flower status` says so"
        raise KeyboardInterrupt(f"interrupted; {ended}") from None


def _await_again(space: Workspace, config: RunConfig, deadline: float) -> None:
    """Until the SuperLink is there and the old process has let go of the folder."""
    while True:
        with contextlib.suppress(FairSiloError):
            if config.simulation or controlled(space):
                with locked(config.out, "server"):
                    return
        if time.monotonic() > deadline:
            raise Interrupted(f"the run did not go on: {absent(space)}, then use `resume`")
        time.sleep(0.5)


def _was_stopped(space: Workspace, config: RunConfig, run: str) -> bool:
    """Whether somebody ended the run at the SuperLink."""
    if config.simulation or not run:
        return False
    with contextlib.suppress(FairSiloError):
        return controlled(space) and run_ended(space, run) == "stopped"
    return False
