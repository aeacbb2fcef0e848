"""Run contestants in their own environments, taking turns.

A contestant's environment is made by pip under `.bench/` when it is first needed, so that the
project does not depend on any of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""The resolution, in seconds, of the system's CPU times of other processes."""
ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".bench"
TORCH = "torch==2.13.*"
"""pip takes the CPU build (2.13.0+cpu) if its index has one, else the large build."""


@dataclass(frozen=True)
class Contestant:
    """A file in `contestants/`, the packages it needs, and what it is built for."""

    name: str
    file: str
    packages: tuple[str, ...]
    built_for: str


OURS = Contestant("fairsilo", "fairsilo_pooled.py", (), "fair models of tables in few silos")
CONTESTANTS = (
    OURS,
    Contestant("numpy", "numpy_pooled.py", (), "no federation at all: one matrix"),
    Contestant("pytorch loop", "torch_loop.py", (TORCH, "numpy"), "any model, written in minutes"),
    Contestant(
        "pfl", "pfl_simulation.py", ("pfl==0.6.*", TORCH), "large models, many users, privacy"
    ),
    Contestant(
        "fedjax",
        "fedjax_simulation.py",
        (
            *("fedjax==0.0.17", "jax==0.4.26", "jaxlib==0.4.26", "numpy<2", "scipy<1.13"),
            *("dm-haiku==0.0.12", "optax<0.2.3", "chex<0.1.87"),
        ),
        "research on federated algorithms with many small users",
    ),
    Contestant(
        "flower",
        "flower_simulation.py",
        ("flwr[simulation]==1.41.*",),
        "real networks; its simulation runs the code of a deployment",
    ),
)


def python_of(packages: Sequence[str], name: str) -> str:
    """The interpreter of an environment with these packages, which is made if missing."""
    if not packages:
        return sys.executable
    folder = ENVIRONMENTS / name.replace(" ", "-")
    python, mark = folder / "bin" / "python", folder / "installed"
    if not (mark.exists() and mark.read_text() == "\n".join(packages)):
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*command, *packages], check=True)
        mark.write_text("\n".join(packages))
    return str(python)


@dataclass
class Seat:
    """A contestant's process, waiting for its turn."""

    name: str
    process: subprocess.Popen[str]

    def listen(self) -> dict[str, Any]:
        """The next line of its answers."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} died: run its file by hand to see why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, rounds: int, settings: int = 1) -> dict[str, Any]:
        """Theta, wall seconds and CPU seconds (its own and its helpers') of these rounds."""
        assert self.process.stdin is not None
        before = cpu_seconds(self.process.pid)
        self.process.stdin.write(f"{rounds} {settings}\n")
        self.process.stdin.flush()
        answer = self.listen()
        family = cpu_seconds(self.process.pid) - before
        # The process has helpers that it did not count; otherwise its own clock is finer.
        if "told" not in answer and family > answer["cpu"] + 5 * TICK:
            answer["cpu"] = family
        return answer


@contextmanager
def seated(contestant: Contestant, workload: Path) -> Iterator[Seat]:
    """Start a contestant on one core (the last of this machine) and end it afterwards."""
    file = ROOT / "benchmarks" / "contestants" / contestant.file
    core = max(os.sched_getaffinity(0))
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [python_of(contestant.packages, contestant.name), str(file), str(workload)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **one, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
    )
    os.sched_setaffinity(process.pid, {core})
    seat = Seat(contestant.name, process)
    try:
        seat.listen()
        yield seat
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def cpu_seconds(root: int) -> float:
    """CPU seconds so far of a process and of all its living descendants."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks = sum(map(int, fields[11:15]))
            parents[int(entry.name)] = int(fields[1]), ticks * TICK
    total, family = 0.0, {root}
    for _ in range(8):
        family |= {pid for pid, (parent, _) in parents.items() if parent in family}
    for pid in family & set(parents):
        total += parents[pid][1]
    return total


def load() -> dict[str, float]:
    """The machine's load right now."""
    return {"load average, 1 minute": os.getloadavg()[0], "at": time.time()}
