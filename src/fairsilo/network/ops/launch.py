"""Flower's commands for a working folder: SuperLink, nodes, registration, runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network.journal import resumable
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.processes import (
    Processes,
    command,
    environment,
    interruptible,
    is_alive,
    listens,
    wait_for_port,
)
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import (
    AUDIT_PROGRESS,
    PROGRESS,
    Event,
    Progress,
    Tail,
    full_disk,
    locked,
)

CONNECTION = "federation"
SIMULATION = "simulation"
"""How FLWR_HOME names the connection to the SuperLink, and the one to a simulation here."""
JOURNAL = "journal"
LAST = "last-run.json"
"""In the working folder: where the run that was started last is written."""
LEAVING = 15.0
"""Seconds that the server's process has to end when its run was ended."""
ROOM = 2**20
"""With fewer bytes left on it a disk counts as full."""
PATIENCE = 120.0
"""Seconds that the SuperLink or a ServerApp has to come up, on a busy machine."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is told beside the federation file."""

    out: Path
    resume: bool = False
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


class Interrupted(FairSiloError):
    """The run's process ended before the run did: resumed, it goes on."""

    told = False
    """Whether the process itself wrote so into the progress file."""


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
    names, deadline = [one.name for one in space.agreed.parties], time.monotonic() + patience
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
    Progress(config.progress, fresh=not config.resume).say(
        {"event": "submitting", "resume": config.resume, "phase": "start"}
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
    run = str(answer["run-id"])
    Progress(config.progress).say({"event": "submitted", "run": run})
    last = {"out": values["out"], "progress": config.progress.name, "run": run}
    if not config.introduce:
        write_atomic(space.folder / LAST, json.dumps(last).encode())
    return run


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
        gone = pid and not is_alive(pid)
        events = tail.read()
        if events:
            continue
        if gone and shutil.disk_usage(out).free < ROOM:
            raise FairSiloError(full_disk(out))
        if gone:
            raise Interrupted(
                "the server's process ended before the run did: use `resume` to go on"
            )
        if not alive() or (not pid and time.monotonic() - quiet_since > PATIENCE):
            raise Interrupted(
                f"run {run} did not come up: look at the SuperLink's output, then use `resume`"
            )
        time.sleep(0.2)


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
                if time.monotonic() >= deadline or not alive() or _was_stopped(space, config):
                    raise
                why = str(error).partition(": use")[0]
                watch({"event": "interrupted", "why": f"{why}; the run is started again"})
                if not error.told:
                    Progress(config.progress).say({"event": "interrupted", "why": why})
                _await_again(space, config, deadline)
            config = replace(config, resume=resumable(config.out / JOURNAL))


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


def check_folder(config: RunConfig) -> None:
    """Refuse a folder that has a finished run, or one that is still at work."""
    audits = config.audit or config.columns
    finished = (config.out / "model.json").exists() and not audits
    if finished and not (config.overwrite or config.resume or config.introduce):
        raise FairSiloError(
            f"{config.out} has a finished run: give another `out`, or `overwrite` to replace it"
        )
    with locked(config.out, "server"):
        pass


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
    except KeyboardInterrupt:
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
            raise Interrupted(f"the run did not go on: {_absent(space)}, then use `resume`")
        time.sleep(0.5)


def _was_stopped(space: Workspace, config: RunConfig) -> bool:
    """Whether somebody ended the run at the SuperLink."""
    from fairsilo.network.ops.control import run_ended

    with contextlib.suppress(FairSiloError, OSError, ValueError, KeyError):
        run = json.loads((space.folder / LAST).read_text())["run"]
        return not config.simulation and controlled(space) and run_ended(space, run) == "stopped"
    return False


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
    try:
        return subprocess.run(
            [command("flwr"), *arguments],
            env={**environment(home(space)), **env},
            cwd=space.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        late = f"the SuperLink did not answer within {PATIENCE:g} s"
        return subprocess.CompletedProcess(arguments, 1, "", late)


def _absent(space: Workspace) -> str:
    return (
        f"no SuperLink runs for {space.folder} on this machine, start it with "
        "./start-superlink.sh and wait until it says where it is controlled"
    )


def _last_line(text: str) -> str:
    lines = [line.strip(" │╭╮╰╯─") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no output")
