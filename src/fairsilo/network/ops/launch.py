"""Flower's commands for a working folder: SuperLink, nodes, registration, runs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.processes import (
    Processes,
    command,
    environment,
    is_alive,
    listens,
    wait_for_port,
)
from fairsilo.network.ops.workspace import Workspace

CONNECTION = "federation"
SIMULATION = "simulation"
"""How FLWR_HOME names the connection to the SuperLink, and the one to a simulation here."""
PROGRESS = "progress.jsonl"
Event = dict[str, Any]
PATIENCE = 120.0
"""Seconds that the SuperLink or a ServerApp has to come up, on a busy machine."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is told beside the federation file."""

    out: Path
    resume: bool = False
    baseline: bool = False
    """Whether to train without the constraints, too, to compare."""
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


def start_superlink(space: Workspace, processes: Processes) -> None:
    """Start the SuperLink of a working folder and the gateway at its address."""
    arguments = [command("fairsilo"), "flower", "superlink", "--folder", str(space.folder)]
    _start_superlink(space, arguments, processes)


def await_superlink(space: Workspace, processes: Processes) -> None:
    """Wait until the SuperLink that was just started is there."""
    deadline = time.monotonic() + PATIENCE
    while not controlled(space):
        if not processes.alive("superlink") or time.monotonic() > deadline:
            raise FairSiloError("the SuperLink did not come up: the end of its log says why")
        time.sleep(0.1)


def controlled(space: Workspace) -> bool:
    """Whether a SuperLink of this folder, on this machine, listens."""
    port = space.control.rpartition(":")[2]
    return bool(port) and listens(int(port))


def start_simulation(space: Workspace, port: int, processes: Processes) -> None:
    """Start a SuperLink of Flower's own simulation (Ray), which plays all silos by itself."""
    arguments = [
        *(command("flower-superlink"), "--insecure", "--simulation"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    _start_superlink(space, arguments, processes)
    wait_for_port(port, PATIENCE)


def _start_superlink(space: Workspace, arguments: Sequence[str], processes: Processes) -> None:
    # Only the start of a run waits for its looks.
    processes.start("superlink", arguments, environment(home(space), look=0.5), space.folder)


def start_node(
    space: Workspace,
    name: str,
    port: int,
    processes: Processes,
    superlink: str | None = None,
    more: Sequence[str] = (),
) -> None:
    """Start the program of one silo, whose settings and key lie in the silo's folder.

    `superlink`: where it finds the SuperLink, if not at the folder's address; `more`: options.
    """
    own = space.silo(name)
    arguments = [
        *(command("fairsilo"), "flower", "silo", "--settings", str(own / "silo.toml")),
        *("--superlink", superlink or space.address, "--port", str(port), *more),
    ]
    processes.start(name, arguments, environment(own / ".flwr"), own)


def register(space: Workspace, patience: float = 2.0) -> None:
    """Tell the SuperLink the silos' public keys, tried again for `patience` seconds."""
    names, deadline = space.agreed.names, time.monotonic() + patience
    while not controlled(space):
        if time.monotonic() > deadline:
            raise FairSiloError(f"no key was registered: {_absent(space)}")
        time.sleep(0.1)
    for name in names:
        key = str(space.folder / "keys" / f"{name}.pub")
        while True:
            done = _flwr(space, "supernode", "register", key, CONNECTION, "--name", name)
            told = done.stdout + done.stderr
            if done.returncode == 0 or "already" in told.lower():
                break
            if time.monotonic() > deadline:
                raise FairSiloError(
                    f"the SuperLink at {space.control} did not take silo {name}'s key "
                    f"({_last_line(told)}): is it running?"
                )
            time.sleep(0.5)


def submit(space: Workspace, config: RunConfig) -> str:
    """Start a run through `flwr run` and return its number."""
    if not (config.simulation or controlled(space)):
        raise FairSiloError(f"the run did not start: {_absent(space)}")
    config.out.mkdir(parents=True, exist_ok=True)
    (config.out / PROGRESS).unlink(missing_ok=True)
    values = {
        "federation": str(space.federation.resolve()),
        "out": str(config.out.resolve()),
        "audit": str(config.audit.resolve()) if config.audit else "",
        "columns": config.columns,
        "resume": config.resume,
        "baseline": config.baseline,
        "simulation": str((space.folder / "silos").resolve()) if config.simulation else "",
        "wait": float(config.wait),
        "timeout": float(config.timeout),
    }
    text = " ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
    where = (
        [SIMULATION, "--federation-config", f"num-supernodes={len(space.agreed.silos)}"]
        if config.simulation
        else [CONNECTION]
    )
    arguments = ("run", str(space.app), *where, "--run-config", text, "--format", "json")
    done = _flwr(space, *arguments, FLWR_LOCAL_SUPERLINK_HTTP_API_PORT=str(config.simulation))
    try:
        answer = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        answer = {}
    if not answer.get("success"):
        told = str(answer.get("error-message") or done.stdout + done.stderr)
        raise FairSiloError(
            f"the run did not start ({_last_line(told)}): look at the SuperLink's output"
        )
    return str(answer["run-id"])


def follow(
    space: Workspace,
    run: str,
    out: Path,
    watch: Callable[[Event], None],
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """Hand on what the ServerApp tells until it has finished; a failure is an error here."""
    path, told, pid = out / PROGRESS, 0, 0
    quiet_since = time.monotonic()
    while True:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        for line in lines[told:]:
            if not line.endswith("\n"):
                break
            told += 1
            event = json.loads(line)
            pid = event.get("pid", pid)
            watch(event)
            if event["event"] == "finished":
                return
            if event["event"] == "failed":
                raise FairSiloError(event["why"])
            quiet_since = time.monotonic()
        if pid and not is_alive(pid) and not _more(path, told):
            raise FairSiloError(
                "the server's process ended before the run did: use `resume` to go on"
            )
        if not alive() or (not pid and time.monotonic() - quiet_since > PATIENCE):
            raise FairSiloError(
                f"run {run} did not come up: look at the SuperLink's output, then use `resume`"
            )
        time.sleep(0.2)


def run_and_follow(
    space: Workspace,
    config: RunConfig,
    watch: Callable[[Event], None],
    alive: Callable[[], bool] = lambda: True,
) -> None:
    """A run from its start to its end; Control-C ends it at the SuperLink, too."""
    run = submit(space, config)
    try:
        follow(space, run, config.out, watch, alive)
    except KeyboardInterrupt:
        stop_run(space, run)
        raise


def stop_run(space: Workspace, run: str) -> None:
    """Tell the SuperLink to end a run."""
    _flwr(space, "stop", run, CONNECTION)


def home(space: Workspace) -> Path:
    """The FLWR_HOME of the coordinator, with the connection to the SuperLink, on loopback."""
    folder = space.folder / ".flwr"
    folder.mkdir(parents=True, exist_ok=True)
    certificate = (space.certificates / CA).resolve()
    text = f'[superlink.{SIMULATION}]\naddress = ":local:"\n'
    if space.control:
        text = (
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f"address = {json.dumps(space.control)}\n"
            f"root-certificates = {json.dumps(str(certificate))}\n\n{text}"
        )
    (folder / "config.toml").write_text(text)
    return folder


def _flwr(space: Workspace, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command("flwr"), *arguments],
        env={**environment(home(space)), **env},
        cwd=space.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def _absent(space: Workspace) -> str:
    return (
        f"no SuperLink runs for {space.folder} on this machine, start it with "
        "./start-superlink.sh and wait until it says where it is controlled"
    )


def _last_line(text: str) -> str:
    lines = [line.strip(" │╭╮╰╯─") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no output")


def _more(path: Path, told: int) -> bool:
    return path.exists() and len(path.read_text().splitlines()) > told
