"""Whole commands on large tables, beside what a data scientist would write with scikit-learn.

    python -m benchmarks.scale [part ...]

CPU time and peak memory are those of the whole process, its start included. The results go to
`benchmarks/results/scale.json`: a list of objects with workload, contestant, quantity, value and
ratio (to the first contestant of the workload). ACSIncome is read from the folder acs-income of
`FAIRSILO_DATA`; it is in the public domain, and not shipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import TORCH, python_of

RESULTS = Path(__file__).parent / "results" / "scale.json"
CATEGORIES = ("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")
LABELLED = ("--label", "PINCP", "--protected-class", "True", "--group", "SEX")
PEER = Path(__file__).parent / "contestants" / "whole_table.py"
ROWS = (100_000, 1_000_000, 10_000_000)
"""Of the made-up table, 14 columns."""
Line = dict[str, Any]


def exchanges(metrics: dict[str, Any]) -> int:
    """How many questions a training asked; the last one is what the model is measured by."""
    return 1 + sum(int(metrics[one]) for one in ("setup_exchanges", "rounds_before", "rounds"))


def spent(command: Sequence[str], cache: str = "off", threads: int = 0) -> dict[str, float]:
    """CPU seconds and peak gigabytes of a command, which must succeed; 0 threads: as it wants."""
    environment = {**os.environ, "FAIRSILO_CACHE": cache}
    if threads:
        environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    # As it is installed: modules are compiled once, which this variable would prevent.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"CPU seconds": used.ru_utime + used.ru_stime, "peak GB": used.ru_maxrss / 1e6}


def fairsilo(*arguments: str) -> list[str]:
    """The command."""
    return [sys.executable, "-c", "from fairsilo.cli import main; main()", *arguments]


def compared(workload: str, contestants: dict[str, dict[str, float]]) -> list[Line]:
    """One object for each contestant and quantity."""
    first = next(iter(contestants.values()))
    return [
        {
            "workload": workload,
            "contestant": name,
            "quantity": quantity,
            "value": round(value, 3),
            "ratio": round(value / first[quantity], 3) if first.get(quantity) else None,
        }
        for name, found in contestants.items()
        for quantity, value in found.items()
    ]


def states() -> Path:
    """The folder of ACSIncome, one Parquet file per state."""
    folder = Path(os.environ.get("FAIRSILO_DATA", "../shared/data")) / "acs-income"
    if not folder.is_dir():
        raise SystemExit(f"there is no folder {folder}: set FAIRSILO_DATA")
    return folder


def as_csv(work: Path) -> Path:
    """The same tables as CSV files."""
    import pandas as pd

    folder = work / "csv"
    folder.mkdir(exist_ok=True)
    for path in sorted(states().glob("*.parquet")):
        pd.read_parquet(path).to_csv(folder / f"{path.stem}.csv", index=False)
    return folder


def train(folder: Path, out: Path, *more: str) -> list[str]:
    """`fairsilo train` with its constraint, to its tolerance, run folder and report included."""
    named = ("--category", ",".join(CATEGORIES), "--epsilon", "0.05", "--no-baseline")
    return fairsilo("train", "--data", str(folder), *LABELLED, *named, "--out", str(out), *more)


def acs(work: Path) -> list[Line]:
    """ACSIncome, 38 states, seven categories: Parquet and CSV."""
    found = []
    for kind, folder in (("Parquet", states()), ("CSV", as_csv(work))):
        peer = [sys.executable, str(PEER), "sklearn", str(folder), *CATEGORIES]
        cache = str(work / f"cache-{kind}")
        commands = {"fairsilo, first time": "x", "fairsilo, again": "x"}
        # Its idle BLAS threads wait at work; ours has one.
        told = {"scikit-learn": spent(peer), "scikit-learn, one thread": spent(peer, threads=1)}
        told |= {name: spent(train(folder, work / "run"), cache) for name in commands}
        found += compared(f"ACSIncome from {kind}", told)
    return found


def network(work: Path) -> list[Line]:
    """The same with an 8-4 network, beside a PyTorch loop with as many passes over the rows."""
    ours = spent(train(states(), work / "mlp", "--model", "mlp"))
    rounds = json.loads((work / "mlp" / "metrics.json").read_text())["rounds"]
    python = python_of((TORCH, "numpy", "pandas", "pyarrow", "scikit-learn"), "torch-table")
    theirs = spent([python, str(PEER), f"torch:{rounds}", str(states()), *CATEGORIES])
    name = f"ACSIncome, 8-4 network, {rounds} passes"
    return compared(name, {"pytorch loop": theirs, "fairsilo": ours})


def additive(work: Path) -> list[Line]:
    """The same with an additive model and its ten pairs: cost, and what travels."""
    out = work / "additive"
    told = spent(train(states(), out, "--model", "additive"))
    metrics = json.loads((out / "metrics.json").read_text())
    told["rounds"] = metrics["rounds"]
    told["exchanges"] = exchanges(metrics)
    told["MB up per silo"] = metrics["bytes_up"] / 1e6 / len(list(states().glob("*.parquet")))
    return compared("ACSIncome, additive with pairs", {"fairsilo": told})


def use(work: Path) -> list[Line]:
    """What comes after training, on all 920,616 rows: predict, audit, and the estimator's fit."""
    run = work / "run"
    if not run.exists():
        spent(train(states(), run))
    data = ("--model", str(run), "--data", str(states()))
    commands = {
        "predict": fairsilo("predict", *data, "--out", str(work / "answers.csv")),
        "audit": fairsilo("audit", *data, "--out", str(work / "audit")),
        "FedFairClassifier.fit": [
            sys.executable,
            str(PEER),
            "estimator",
            str(states()),
            *CATEGORIES,
        ],
    }
    return [
        line
        for name, command in commands.items()
        for line in compared(f"ACSIncome, {name}", {"fairsilo": spent(command)})
    ]


def rows(work: Path) -> list[Line]:
    """A made-up table of 14 columns (850 parameters): seconds and memory as it grows."""
    found, cpu = [], []
    for size in ROWS:
        folder = work / f"rows-{size}"
        subprocess.run([sys.executable, str(PEER), f"make:{size}", str(folder)], check=True)
        named = ("--label", "y", "--protected-class", "1", "--group", "g", "--epsilon", "0.05")
        out = ("--no-baseline", "--out", str(work / "rows"))
        told = spent(fairsilo("train", "--data", str(folder), *named, *out), str(work / "cache"))
        cpu.append(told["CPU seconds"])
        found += compared(f"{size:,} rows x 14 columns", {"fairsilo": told})
    rates = {
        "exponent": np.log(cpu[2] / cpu[0]) / np.log(ROWS[2] / ROWS[0]),
        # Harder: the start of the program, which counts the same for all sizes, taken out.
        "exponent without the start": np.log((cpu[2] - cpu[0]) / (cpu[1] - cpu[0]))
        / np.log((ROWS[2] - ROWS[0]) / (ROWS[1] - ROWS[0])),
    }
    growth = {name: float(value) for name, value in rates.items()}
    return [*found, *compared("growth with rows", {"fairsilo": growth})]


def wide(work: Path) -> list[Line]:
    """A million rows with a category of 5,000 values: too wide for Newton's matrix."""
    folder, out = work / "wide", work / "wide-run"
    subprocess.run([sys.executable, str(PEER), "wide:1000000", str(folder)], check=True)
    named = ("--label", "y", "--protected-class", "1", "--group", "g", "--epsilon", "0.05")
    more = ("--category", "c0", "--no-baseline", "--out", str(out))
    command = fairsilo("train", "--data", str(folder), *named, *more)
    cache = str(work / "cache-wide")
    told = {"fairsilo, first time": spent(command, cache), "fairsilo, again": spent(command, cache)}
    metrics = json.loads((out / "metrics.json").read_text())
    reached = {"rounds": metrics["rounds"] * 1.0, "converged": metrics["converged"] * 1.0}
    rounds = {"fairsilo, again": reached}
    name = f"1,000,000 rows, {metrics['solver_why']}"
    return [*compared(name, told), *compared(name, rounds)]


def newton(work: Path) -> list[Line]:
    """A Newton round alone over 10^7 rows: the CPU beside the GPU of `benchmarks.gpu`."""
    command = [sys.executable, "-m", "benchmarks.newton_round", str(ROWS[-1])]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return compared("10^7 rows x 14 columns, a Newton round", {"fairsilo, CPU": told})


def adult(work: Path) -> list[Line]:
    """`make run` for the first and the second time, and the help."""
    cache = str(work / "cache-adult")
    command = fairsilo("train", "--data", "adult", "--epsilon", "0.1", "--out", str(work / "adult"))
    told = {"fairsilo, first time": spent(command, cache), "fairsilo, again": spent(command, cache)}
    helped = compared("fairsilo --help", {"fairsilo": spent(fairsilo("--help"))})
    return [*compared("ADULT (make run)", told), *helped]


PARTS = {
    "adult": adult,
    "acs": acs,
    "use": use,
    "rows": rows,
    "wide": wide,
    "network": network,
    "additive": additive,
    "newton": newton,
}


def main() -> None:
    """Run the named parts, or all; keep what other parts said before."""
    wanted = sys.argv[1:] or list(PARTS)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    with tempfile.TemporaryDirectory() as work:
        for name in wanted:
            new = PARTS[name](Path(work))
            names = {line["workload"] for line in new}
            kept = [line for line in kept if line["workload"] not in names] + new
            for line in new:
                print(json.dumps(line), flush=True)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
