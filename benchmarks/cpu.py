"""FairSilo beside its peers on this machine's CPU: the same rounds, the same numbers, in turns.

    python -m benchmarks.cpu                      # all workloads, into benchmarks/results/cpu.json
    python -m benchmarks.cpu round sweep --repeats 5

Every contestant runs on one core in its own environment and must match the oracle of
`benchmarks/workload.py`. CPU seconds are compared, which a busy machine disturbs less than wall
time; the load is recorded with every workload.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fair, growth, memory, optimum
from benchmarks.arena import CONTESTANTS, OURS, Contestant, load, seated
from benchmarks.workload import Workload, check, make
from fairsilo.data.files import write_atomic
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare

RESULTS = Path(__file__).parent / "results"
SETTINGS = 32
ROUNDS = {"fairsilo": 200, "numpy": 50, "pytorch loop": 10, "flower": 8}
"""Rounds per measurement, by contestant; 4 for the others."""
TURNS = {
    "round": ((), 1, "one federated gradient round, logistic regression, ADULT, 50 clients"),
    "sweep": ((), SETTINGS, "one round of each of 32 settings, logistic regression, ADULT"),
    "network": ((8, 4), 1, "one federated gradient round, 8-4 network, ADULT, 50 clients"),
}


def adult(hidden: tuple[int, ...], settings: int) -> Workload:
    """ADULT's 40,000 training rows at 50 clients."""
    federation = prepare(Options(data="adult")).federation
    return make(federation.x, federation.y, federation.offsets, hidden, settings)


def turns(
    work: Workload,
    settings: int,
    repeats: int,
    contestants: Sequence[Contestant] = CONTESTANTS,
    rounds: dict[str, int] = ROUNDS,
) -> dict[str, dict[str, list[float]]]:
    """CPU and wall milliseconds per round (all settings) of every contestant, in each turn."""
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "workload.npz"
        work.save(path)
        seats, counts = [], {}
        for contestant in contestants:
            seat = stack.enter_context(seated(contestant, path))
            first = seat.ask(3, settings)
            away = check(work, 3, first["theta"], contestant.name, settings)
            print(f"{contestant.name} matches the oracle to {away:.0e}", file=sys.stderr)
            counts[seat.name] = max(1, rounds.get(seat.name, 4) // (4 if settings > 1 else 1))
            seat.ask(counts[seat.name], settings)  # finishes compilation
            seats.append(seat)
            found[seat.name] = {"cpu": [], "seconds": []}
        for _ in range(repeats):
            for seat in seats:
                count = counts[seat.name]
                answer = seat.ask(count, settings)
                for key, values in found[seat.name].items():
                    values.append(answer[key] / count * 1e3)
    return found


def compare(name: str, repeats: int, without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One of the workloads that all contestants take, as rows of the result."""
    hidden, settings, what = TURNS[name]
    before = load()
    # Flower's simulation would start Ray again for each of the 32 settings.
    left_out = {*without, "flower"} if settings > 1 else {*without}
    able = [one for one in CONTESTANTS if one.name not in left_out]
    found = turns(adult(hidden, settings), settings, repeats, able)
    rows = []
    for contestant, times in found.items():
        for quantity, key in (("CPU ms per round", "cpu"), ("wall ms per round", "seconds")):
            values, ours = np.array(times[key]), np.array(found[OURS.name][key])
            ratios = values / ours
            rows.append(
                {
                    "workload": name,
                    "what": what,
                    "contestant": contestant,
                    "quantity": quantity,
                    "value": float(np.median(values)),
                    "spread": [float(values.min()), float(values.max())],
                    "ratio to ours": float(np.median(ratios)),
                    "ratio spread": [float(ratios.min()), float(ratios.max())],
                    "repetitions": repeats,
                    "load": [before["load average, 1 minute"], load()["load average, 1 minute"]],
                }
            )
    return rows


def keep(workload: str, rows: list[dict[str, Any]], path: Path) -> None:
    """Replace a workload's rows in the result file."""
    old = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in old if row["workload"] != workload]
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, (json.dumps(kept + rows, indent=1) + "\n").encode())


def main() -> None:
    parts: dict[str, Any] = {**growth.PARTS, **memory.PARTS, **optimum.PARTS, **fair.PARTS}
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "workloads", nargs="*", help=f"of {', '.join([*TURNS, *parts])}; all, if none"
    )
    parser.add_argument("--without", nargs="*", default=[], help="contestants to leave out")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for name in options.workloads or [*TURNS, *parts]:
        if name in TURNS:
            rows = compare(name, options.repeats, options.without)
        else:
            rows = parts[name](name, options.repeats)
        keep(name, rows, RESULTS / "cpu.json")
        for row in rows:
            print({key: row[key] for key in row if key not in ("what", "repetitions", "load")})


if __name__ == "__main__":
    main()
