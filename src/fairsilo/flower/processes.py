"""SuperLink and SuperNodes as child processes that are all gone at the end, whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairsilo.errors import FairSiloError

ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Many small processes share few cores; threads of a matrix product would only get in the way.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

LOOK = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
"""Seconds between two looks for work: every question to a silo waits for one of its node's, and
every look costs milliseconds of CPU. The operator's own value counts."""


def command(name: str) -> str:
    """The path of one of Flower's commands, preferably of this Python's environment."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FairSiloError(f"{name} is not installed: pip install 'fairsilo[flower]'")
    return found


def environment(home: Path, look: float = 0.2) -> dict[str, str]:
    """The environment of every Flower process, with a FLWR_HOME of its own; `look` as in LOOK."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    own = {LOOK: os.environ.get(LOOK, f"{look:g}"), "FLWR_HOME": str(home.resolve()), "PATH": path}
    return {**os.environ, **ENVIRONMENT, **own}


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for_port(port: int, patience: float) -> None:
    """Wait until somebody listens on a port of the loopback address."""
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        if time.monotonic() > deadline:
            raise FairSiloError(f"nobody listens on port {port}: look at the logs")
        time.sleep(0.2)


class Processes:
    """Children by name, each in a process group of its own, with its output in a file."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, arguments: Sequence[str], env: dict[str, str], cwd: Path) -> None:
        """Start a child; what it prints goes to NAME.log."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                arguments,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # The SuperLink's database holds what the silos sent.
                umask=0o077,
            )

    def alive(self, name: str) -> bool:
        """Whether the child still runs."""
        return name in self.running and self.running[name].poll() is None

    def kill(self, name: str) -> None:
        """End a child and all that came from it at once, with SIGKILL."""
        child = self.running.pop(name)
        _end(_family(child))
        child.wait(timeout=10)

    def log(self, name: str) -> str:
        """What a child printed so far."""
        path = self.logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self, patience: float = 5.0) -> None:
        """End all children, gently first, and everything that came from them."""
        families = [pid for child in self.running.values() for pid in _family(child)]
        for child in self.running.values():
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(map(is_alive, families)):
            for child in self.running.values():
                child.poll()
            time.sleep(0.1)
        # Looked up again: a dying SuperLink may have started one more process meanwhile.
        _end([*families, *(pid for child in self.running.values() for pid in _family(child))])
        for child in self.running.values():
            child.wait(timeout=10)
        self.running.clear()


@contextlib.contextmanager
def processes(logs: Path) -> Iterator[Processes]:
    """Children that are gone when the block is left: at its end, on an error, Control-C or TERM."""
    group = Processes(logs)
    before = signal.getsignal(signal.SIGTERM)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, interrupted)
    try:
        yield group
    finally:
        # A second Control-C must not leave children behind.
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            group.stop()
        finally:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, signal.default_int_handler)
                signal.signal(signal.SIGTERM, before)


def _family(child: subprocess.Popen[bytes]) -> list[int]:
    """A child, its descendants and all of its session, from /proc; without /proc, it alone.

    The session, because a process whose parent is gone is nobody's descendant any more.
    """
    parents: dict[int, int] = {}
    family = [child.pid] if child.poll() is None else []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # After the name: state, parent, process group, session.
            fields = entry.read_text().rpartition(")")[2].split()
            pid = int(entry.parent.name)
            parents[pid] = int(fields[1])
            if int(fields[3]) == child.pid and pid != child.pid:
                family.append(pid)
    for pid in family:
        family += [one for one, parent in parents.items() if parent == pid and one not in family]
    return family


def _end(pids: Sequence[int], patience: float = 5.0) -> None:
    """SIGKILL, and wait until it has taken effect."""
    for pid in filter(is_alive, pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and any(map(is_alive, pids)):
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits to be collected does not."""
    with contextlib.suppress(OSError):
        state = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        return state not in ("Z", "X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
