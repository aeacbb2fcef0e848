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
from typing import IO
from uuid import uuid4

from fairsilo.errors import FairSiloError
from fairsilo.extras import install

ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Many small processes share few cores; threads of a matrix product would only get in the way.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

MARK = "FAIRSILO_PROCESSES"
"""The variable by which a child's descendants are found, whatever became of their parents."""
LOOK = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
"""Seconds between two looks for work: every question to a silo waits for one of its node's, and
every look costs milliseconds of CPU. The operator's own value counts."""


def command(name: str) -> str:
    """The path of one of Flower's commands, preferably of this Python's environment."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FairSiloError(f"{name} is not installed: {install('flower')}")
    return found


def environment(home: Path, look: float = 0.2) -> dict[str, str]:
    """The environment of every Flower process, with a FLWR_HOME of its own; `look` as in LOOK."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    own = {
        LOOK: os.environ.get(LOOK) or f"{look:g}",
        "FLWR_HOME": str(home.resolve()),
        "PATH": path,
    }
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


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback address."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def wait_for_port(port: int, patience: float) -> None:
    """Wait until somebody listens on a port of the loopback address."""
    deadline = time.monotonic() + patience
    while not listens(port):
        if time.monotonic() > deadline:
            raise FairSiloError(f"nobody listens on port {port}: look at the logs")
        time.sleep(0.2)


class Processes:
    """Children by name, each in a process group of its own, with its output in a file.

    Without a folder for logs they print where this process does.
    """

    def __init__(self, logs: Path | None) -> None:
        self.logs = logs
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.marks: dict[int, bytes] = {}

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        env: dict[str, str],
        cwd: Path,
        tied: bool = False,
    ) -> None:
        """Start a child; what it prints goes to NAME.log.

        `tied`: it is one that calls `end_with_parent`, so it ends where this process is killed.
        """
        # Behind the mark of this process itself, whose starter finds the child by that.
        mark = env.get(MARK, "") + uuid4().hex
        with self._output(name) as log:
            self.running[name] = subprocess.Popen(
                arguments,
                env={**env, MARK: mark},
                cwd=cwd,
                stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # The SuperLink's database holds what the silos sent.
                umask=0o077,
            )
        self.marks[self.running[name].pid] = f"{MARK}={mark}".encode()

    def _output(self, name: str) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        if self.logs is None:
            return contextlib.nullcontext()
        self.logs.mkdir(parents=True, exist_ok=True)
        return (self.logs / f"{name}.log").open("ab")

    def alive(self, name: str) -> bool:
        """Whether the child still runs."""
        return name in self.running and self.running[name].poll() is None

    def pids(self, name: str) -> list[int]:
        """The child, if it runs, and all that came from it."""
        return self._family(self.running[name])

    def kill(self, name: str) -> None:
        """End a child and all that came from it at once, with SIGKILL."""
        child = self.running.pop(name)
        self._end([child])
        _collect(child)

    def log(self, name: str) -> str:
        """What a child printed so far."""
        path = self.logs / f"{name}.log" if self.logs else None
        return path.read_text(errors="replace") if path and path.exists() else ""

    def stop(self, patience: float = 5.0) -> None:
        """End all children, gently first, and everything that came from them."""
        children = list(self.running.values())
        for child in children:
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(self._family(child) for child in children):
            time.sleep(0.1)
        self._end(children)
        for child in children:
            _collect(child)
        self.running.clear()

    def _end(self, children: Sequence[subprocess.Popen[bytes]], patience: float = 10.0) -> None:
        """SIGKILL to whatever came from them, looked up until nothing is left: the dying may
        have started one more process meanwhile."""
        deadline = time.monotonic() + patience
        while left := [pid for child in children for pid in self._family(child)]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def _family(self, child: subprocess.Popen[bytes]) -> list[int]:
        """The child, if it runs, and all that runs with its mark; without /proc, it alone.

        A mark, because Flower gives processes sessions of their own, and one whose parent is gone
        is nobody's descendant any more.
        """
        family = {child.pid} if child.poll() is None else set()
        mark = self.marks[child.pid]
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                pid = int(entry.parent.name)
                marks = [part for part in entry.read_bytes().split(b"\0") if part.startswith(mark)]
                if marks and is_alive(pid):
                    family.add(pid)
        return sorted(family)


def _collect(child: subprocess.Popen[bytes]) -> None:
    child.wait(timeout=10)
    if child.stdin is not None:
        child.stdin.close()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM within the block is like Control-C."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, interrupted)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def processes(logs: Path | None) -> Iterator[Processes]:
    """Children that are gone when the block is left: at its end, on an error, Control-C or TERM."""
    group = Processes(logs)
    with interruptible():
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
