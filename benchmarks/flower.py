"""What a network run costs: ADULT over Flower on loopback, TLS, node keys, 4 silos.

    python -m benchmarks.flower [--silos 4] [--rows N] [--no-secure-aggregation] [--witness]
        [--own-waits] [--runs 1] [--out benchmarks/results/flower.json]

Rounds, seconds by phase, seconds and CPU-seconds a round and in all, bytes per silo, and what a
silo's two processes cost until they can answer: seconds, CPU-seconds, memory. They are printed and
kept in `--out`, a list of objects with workload, contestant, quantity, value and run, in which a
workload replaces itself; `docs/tools/quoted.py` writes the table of docs/network.md from it.
The load of the machine stands beside them: on a busy one, seconds measure the neighbours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from fairsilo.network.ops.demo import demo
from fairsilo.network.ops.processes import MARK
from fairsilo.progress import PROGRESS, Tail, standing

NODE = "import fairsilo.network.ops.node, flwr.supernode.cli"
"""What a silo's node imports."""
WORKER = (
    "import fairsilo.network.ops.worker, fairsilo.network.ops.runtime, fairsilo.network.client, "
    "fairsilo.network.masked, fairsilo.network.silo"
)
"""What a silo's worker imports once, before the first question."""
RESULTS = Path(__file__).parent / "results" / "flower.json"
OURS, OWN_WAITS = "fairsilo", "Flower's own waits"
START = "start of a process"
CHANGED = """
import sys

if "fairsilo.network.ops.node" in sys.orig_argv:
    import fairsilo.network.ops.internals as internals

    internals.SLEEPS["start_client_internal"] = ["4"]
"""
"""Python runs it at the start of a node, which then finds another Flower than it knows: none of its
waits are shortened."""
Line = dict[str, Any]


def start_up(code: str, repeats: int = 3) -> tuple[float, float, float]:
    """Seconds, CPU-seconds (the best of `repeats`) and MB of a process that runs `code`."""
    # VmHWM is the peak of its own memory; ru_maxrss would include this process before exec.
    told = "; print(next(l.split()[1] for l in open('/proc/self/status') if 'VmHWM' in l))"
    best, busy, largest = float("inf"), float("inf"), 0.0
    for _ in range(repeats):
        before, started = cpu_of_children(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code + told],
            check=True,
            capture_output=True,
            text=True,
        )
        best = min(best, time.perf_counter() - started)
        busy = min(busy, cpu_of_children() - before)
        largest = max(largest, int(done.stdout) / 1024)
    return best, busy, largest


def cpu_of_children() -> float:
    """CPU-seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_all() -> float:
    """CPU-seconds so far of every process that runs and that this one, or its children, started."""
    ticks, mark = 0, f"{MARK}={os.environ[MARK]}".encode()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if mark in entry.with_name("environ").read_bytes():
                ticks += sum(map(int, entry.read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(
    silos: int, rows: int | None, secure: bool, witness: bool = False, own_waits: bool = False
) -> dict[str, float]:
    """Run one demo and collect its costs from the run folder and the events."""
    times: dict[str, float] = {}
    busy: list[float] = []
    # All marks of children begin with it.
    os.environ[MARK] = uuid4().hex

    def watch(event: dict[str, Any]) -> None:
        times.setdefault(event["event"], time.monotonic())
        if event["event"] == "round":
            busy.append(cpu_of_all())

    load, before = os.getloadavg()[0], cpu_of_children()
    with tempfile.TemporaryDirectory() as folder:
        space, out = Path(folder) / "work", Path(folder) / "run"
        with waiting(own_waits):
            found = demo(
                space, out, silos, watch, rows=rows, secure_aggregation=secure, witness=witness
            )
        assert found is not None
        metrics = json.loads((out / "metrics.json").read_text())
        phases = standing(Tail(out / PROGRESS).read())["phases"]
    spent = cpu_of_children() - before
    rounds = [entry["seconds"] for entry in metrics["network"]["rounds"]]
    return {
        "training rows": metrics["train"]["rows"],
        "rounds": metrics["rounds"],
        "converged": metrics["converged"],
        "seconds of the rounds": sum(rounds),
        "seconds a round": sum(rounds) / len(rounds),
        "CPU seconds a round, all processes": (busy[-1] - busy[0]) / max(len(busy) - 1, 1),
        "seconds from the run's start to the first round": times["round"]
        - times["started"]
        - rounds[0],
        "exchanges before the first round": metrics["network"]["setup_messages"],
        "seconds to start SuperLink and nodes": times["up"] - times["made"],
        "seconds in all, from the first start to the last answer": times["finished"]
        - times["made"],
        **{f"seconds of the phase {name}": seconds for name, seconds in phases.items()},
        "exchanges": metrics["network"]["exchanges"],
        "kB sent by a silo": metrics["bytes_up"] / silos / 1e3,
        "kB received by a silo": metrics["bytes_down"] / silos / 1e3,
        "CPU seconds of all processes that ended by themselves": spent,
        "cores": os.cpu_count(),
        "load before": load,
        "load after": os.getloadavg()[0],
        "difference of probabilities from the simulation": found.probabilities,
        "difference of the loss": found.loss,
    }


@contextlib.contextmanager
def waiting(own: bool) -> Iterator[None]:
    """Nodes that are started within the block wait as Flower has it, if `own`."""
    if not own:
        yield
        return
    before = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(CHANGED)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, before)))
        try:
            yield
        finally:
            del os.environ["PYTHONPATH"]
            os.environ.update({} if before is None else {"PYTHONPATH": before})


def workload(silos: int, rows: int | None, secure: bool, witness: bool) -> str:
    """What is trained, in words."""
    told = ["ADULT" if rows is None else f"{rows:,} rows of ADULT", f"{silos} silos"]
    told.append("masks" if secure else "in the clear")
    return ", ".join([*told, *(["a witness"] if witness else [])])


def lines_of(name: str, contestant: str, found: dict[str, float], run: int = 1) -> list[Line]:
    """One object for each quantity."""
    about = {"workload": name, "contestant": contestant}
    return [
        {**about, "quantity": quantity, "value": float(f"{value:.6g}"), "run": run}
        for quantity, value in found.items()
    ]


def keep(new: list[Line], path: Path) -> None:
    """Put them into the file; those of the same workload and contestant go."""
    old: list[Line] = json.loads(path.read_text()) if path.exists() else []
    named = {(line["workload"], line["contestant"]) for line in new}
    lines = [line for line in old if (line["workload"], line["contestant"]) not in named] + new
    path.write_text(json.dumps(lines, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--silos", type=int, default=4)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--secure-aggregation", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--witness", action="store_true")
    parser.add_argument("--own-waits", action="store_true", help="of Flower's nodes, unshortened")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    asked = (options.silos, options.rows, options.secure_aggregation, options.witness)
    contestant = OWN_WAITS if options.own_waits else OURS
    new: list[Line] = []
    for name, code in (("Flower's SuperNode", NODE), ("a silo's worker", WORKER)):
        seconds, busy, memory = start_up(code)
        new += lines_of(START, name, {"seconds": seconds, "CPU seconds": busy, "MB": memory})
    for run in range(1, options.runs + 1):
        found = measure(*asked, options.own_waits)
        new += lines_of(workload(*asked), contestant, found, run)
        for quantity, value in found.items():
            print(f"{quantity}: {value:.3g}", flush=True)
    keep(new, options.out)


if __name__ == "__main__":
    main()
