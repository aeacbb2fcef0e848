"""Keys registered, runs started and stopped, at the SuperLink of a working folder."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.control import (
    Refused,
    nodes,
    register_key,
    start_run,
    stop,
    unregister_former,
)
from fairsilo.network.ops.processes import listens
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import AUDIT_PROGRESS, PROGRESS, Progress

CONNECTION = "federation"
"""How FLWR_HOME names the connection to the SuperLink."""
DATABASE = "superlink.db"
"""In the working folder: the SuperLink's list of keys and runs."""
LAST = "last-run.json"
"""In the working folder: where the run that was started last is written."""
PATIENCE = 120.0
"""Seconds that the SuperLink or a ServerApp has to come up, on a busy machine."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is told beside the federation file."""

    out: Path
    resume: bool = False
    again: bool = False
    """Whether the same command started the run before, and it was interrupted."""
    baseline: bool = False
    """Whether to train without the constraints, too, to compare."""
    overwrite: bool = False
    """Whether a finished run in `out` may be replaced."""
    introduce: bool = False
    """Whether silos are only asked who they are."""
    start_from: Path | None = None
    """The run folder from whose model training starts."""
    simulation: int = 0
    """Where not 0: the port of a SuperLink whose simulation plays the silos."""
    audit: Path | None = None
    """The run whose model is measured, instead of training one."""
    columns: str = ""
    """Or what is measured of the model whose answers are in the silos' tables; see `foreign`."""
    wait: float = 60.0
    """Seconds to wait for all silos of the federation file."""
    timeout: float = 120.0
    """Seconds a silo has for an answer."""
    wait_lost: float = 600.0
    """Seconds to wait for a silo that is lost, or for the SuperLink, before the run ends."""

    @property
    def progress(self) -> Path:
        """The file that tells how the run goes."""
        return self.out / (AUDIT_PROGRESS if self.audit or self.columns else PROGRESS)


def controlled(space: Workspace) -> bool:
    """Whether a SuperLink of this folder, on this machine, listens."""
    port = space.control.rpartition(":")[2]
    return bool(port) and listens(int(port))


def home(space: Workspace) -> Path:
    """The FLWR_HOME of the coordinator, with the connection to the SuperLink, on loopback."""
    folder = space.folder / ".flwr"
    folder.mkdir(parents=True, exist_ok=True)
    certificate = (space.certificates / CA).resolve()
    text = ""
    if space.control:
        text = (
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f"address = {json.dumps(space.control)}\n"
            f"root-certificates = {json.dumps(str(certificate))}\n"
        )
    (folder / "config.toml").write_text(text)
    return folder


def register(space: Workspace, patience: float = 2.0) -> None:
    """Tell the SuperLink the silos' public keys, tried again for `patience` seconds.

    Keys of earlier federation files are refused from then on.
    """
    names, deadline = [one.name for one in space.agreed.parties], time.monotonic() + patience
    while not controlled(space):
        if time.monotonic() > deadline:
            raise FairSiloError(f"no key was registered: {absent(space)}")
        time.sleep(0.1)
    for name in names:
        while True:
            try:
                register_key(space, name)
                break
            except FairSiloError as error:
                if isinstance(error, Refused) and "already" in str(error):
                    break
                if time.monotonic() > deadline:
                    why = f"silo {name}'s key was not registered: {error}"
                    raise FairSiloError(why) from None
            time.sleep(0.5)
    # First: whoever left is refused also where somebody else came back.
    unregister_former(space)
    if back := sorted(set(names) - set(nodes(space))):
        raise FairSiloError(
            f"{' and '.join(back)} left and came back with the same key, and Flower takes no key "
            f"twice: end the SuperLink, remove {space.folder / DATABASE}, start it, register again"
        )


def submit(space: Workspace, config: RunConfig) -> str:
    """Start a run and return its number."""
    if not (config.simulation or controlled(space)):
        raise FairSiloError(f"the run did not start: {absent(space)}")
    more = config.resume or config.again
    Progress(config.progress, fresh=not more).say(
        {"event": "submitting", "resume": more, "phase": "start"}
    )
    values = {
        "federation": str(space.federation.resolve()),
        "out": str(config.out.resolve()),
        "audit": str(config.audit.resolve()) if config.audit else "",
        "columns": config.columns,
        "resume": config.resume,
        "baseline": config.baseline,
        "start_from": str(config.start_from.resolve()) if config.start_from else "",
        "simulation": str((space.folder / "silos").resolve()) if config.simulation else "",
        "introduce": config.introduce,
        "wait": float(config.wait),
        "wait_lost": float(config.wait_lost),
        "timeout": float(config.timeout),
    }
    try:
        run = start_run(space, values, config.simulation)
    except FairSiloError as error:
        raise FairSiloError(f"the run did not start: {error}") from None
    Progress(config.progress).say({"event": "submitted", "run": run})
    last = {"out": values["out"], "progress": config.progress.name, "run": run}
    if not config.introduce:
        write_atomic(space.folder / LAST, json.dumps(last).encode())
    return run


def stop_run(space: Workspace, run: str) -> None:
    """Tell the SuperLink to end a run; one that has ended, or cannot be told, is left alone."""
    with contextlib.suppress(FairSiloError):
        stop(space, run)


def absent(space: Workspace) -> str:
    """What to do where no SuperLink is there."""
    return (
        f"no SuperLink runs for {space.folder} on this machine, start it with "
        "./start-superlink.sh and wait until it says where it is controlled"
    )
