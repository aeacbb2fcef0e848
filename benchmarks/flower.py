"""What a network run costs: ADULT over Flower on loopback, TLS, node keys, 4 silos.

    python -m benchmarks.flower [--silos 4] [--rows N] [--no-secure-aggregation]

Prints rounds, seconds a round, seconds of the set-up, bytes per silo, and what the process costs
that Flower starts in a silo for every message: seconds until it can answer, and its memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fairsilo.flower.demo import demo

MESSAGE = "import flwr.supernode.runtime.run_clientapp, fairsilo.flower.client"
SECURE = f"{MESSAGE}, fairsilo.flower.masked"
FLOWER_ALONE = "import flwr.supernode.runtime.run_clientapp"


def start_up(code: str, repeats: int = 3) -> tuple[float, float]:
    """Seconds (the best of some) and MB of a process that imports what a message needs."""
    # The high-water mark of its own memory: ru_maxrss would count this process before exec, too.
    told = "; print(next(l.split()[1] for l in open('/proc/self/status') if 'VmHWM' in l))"
    best, largest = float("inf"), 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code + told],
            check=True,
            capture_output=True,
            text=True,
        )
        best = min(best, time.perf_counter() - started)
        largest = max(largest, int(done.stdout) / 1024)
    return best, largest


def measure(silos: int, rows: int | None, secure: bool) -> dict[str, Any]:
    """One demo run; its costs from the run folder and from the events."""
    times: dict[str, float] = {}

    def watch(event: dict[str, Any]) -> None:
        times.setdefault(event["event"], time.monotonic())

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        space, out = Path(folder) / "work", Path(folder) / "run"
        found = demo(space, out, silos, watch, rows=rows, secure_aggregation=secure)
        metrics = json.loads((out / "metrics.json").read_text())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rounds = [entry["seconds"] for entry in metrics["network"]["rounds"]]
    return {
        "secure aggregation": secure,
        "rounds": metrics["rounds"],
        "converged": metrics["converged"],
        "seconds of the rounds": sum(rounds),
        "seconds a round": sum(rounds) / len(rounds),
        "seconds from the run's start to the first round": times["round"]
        - times["started"]
        - rounds[0],
        "seconds to start SuperLink and nodes": times["up"] - times["made"],
        "exchanges": metrics["network"]["exchanges"],
        "kB sent by a silo": metrics["bytes_up"] / silos / 1e3,
        "kB received by a silo": metrics["bytes_down"] / silos / 1e3,
        "CPU seconds of all processes": after.ru_utime
        + after.ru_stime
        - before.ru_utime
        - before.ru_stime,
        "difference of probabilities from the simulation": found.probabilities,
        "difference of the loss": found.loss,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--silos", type=int, default=4)
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--secure-aggregation", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    for name, code in (
        ("Flower alone", FLOWER_ALONE),
        ("a plain message", MESSAGE),
        ("a masked message", SECURE),
    ):
        seconds, memory = start_up(code)
        print(f"process for {name}: {seconds:.2f} s to start, {memory:.0f} MB", flush=True)
    for key, value in measure(options.silos, options.rows, options.secure_aggregation).items():
        shown = f"{value:.3g}" if isinstance(value, float) and value < 1e-3 else value
        print(f"{key}: {round(value, 2) if isinstance(shown, float) else shown}", flush=True)


if __name__ == "__main__":
    main()
