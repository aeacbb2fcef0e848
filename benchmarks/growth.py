"""How time and memory grow: with clients (`clientwise`), with rows and with features (`pooled`).

Every size is measured in a separate process, so that the peak memory belongs to it alone; the slope
is that of the logarithms, fitted by least squares: 1 is linear.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import ROOT, load

WIDTHS = (7, 16, 7, 14, 6, 5, 2, 41)
"""The widths of ADULT's categories; with six numbers they make 104 columns."""
SIZES = {
    "clients": [10, 100, 1_000, 10_000],
    "rows": [10_000, 100_000, 1_000_000, 10_000_000],
    "features": [10, 32, 100, 320, 1_000],
}
PER_CLIENT, COLUMNS, TABLE = 32, 20, 20_000


def coded_rows(rows: int, seed: int = 0) -> Any:
    """Random ADULT-shaped rows as codes, without ever making the dense matrix."""
    from fairsilo.coded import Coded, Layout, aligned
    from fairsilo.sums import Rows

    rng = np.random.default_rng(seed)
    starts = 6 + np.cumsum((0, *WIDTHS[:-1]))
    categories = tuple(zip(map(int, starts), WIDTHS, strict=True))
    layout = Layout(tuple(range(6)), categories, tuple((j,) for j in range(len(WIDTHS))))
    codes = aligned((rows, len(WIDTHS)), np.uint8)
    for j, width in enumerate(WIDTHS):
        codes[:, j] = rng.integers(0, width, rows, np.uint8)
    numbers = aligned((rows, 6), np.float32)
    rng.standard_normal(dtype=np.float32, out=numbers)
    y, w, v = (aligned(shape, np.float32) for shape in ((rows,), (rows,), (1, rows)))
    y[:] = numbers[:, 0] + rng.standard_normal(rows, np.float32) > 0
    w[:] = 1 / rows
    v[0] = np.where(codes[:, 6] == 0, 4 / rows, -4 / rows) * y
    return Rows(Coded(numbers, codes, layout), y.astype(np.uint8), w, v)  # type: ignore[arg-type]


Run = Callable[[int], Any]
"""Runs so many AGP rounds."""


def in_one_program(rows: Any, features: int, constraints: int) -> Run:
    """The compiled loop of `pooled` over weighted rows, which are on the device already."""
    from fairsilo.compute import jax
    from fairsilo.model import logistic_regression
    from fairsilo.solver import Agp
    from fairsilo.sums import Compiled

    engine = Compiled(logistic_regression(features), rows, np.float32)
    jax.block_until_ready(engine.rows)  # type: ignore[no-untyped-call]
    start, epsilon = np.zeros(features + 1), np.full(constraints, 0.01)
    return lambda rounds: engine.solve(Agp(tolerance=0.0), start, epsilon, rounds)


def pooled_rows(rows: int, constraints: int) -> tuple[Run, int, int]:
    """Rounds over coded rows, the number of features, and the bytes of the coded table."""
    table = coded_rows(rows)
    return in_one_program(table, 104, constraints), 104, table.x.nbytes


def pooled_features(features: int, constraints: int) -> tuple[Run, int, int]:
    from fairsilo.sums import Rows

    rng = np.random.default_rng(0)
    x = rng.standard_normal((TABLE, features), np.float32)
    y = rng.integers(0, 2, TABLE)
    rows = Rows(x, y, np.full(TABLE, 1 / TABLE), rng.normal(size=(1, TABLE)) / TABLE)  # type: ignore[arg-type]
    return in_one_program(rows, features, constraints), features, x.nbytes


def clientwise(clients: int, constraints: int) -> tuple[Run, int, int]:
    from fairsilo.engine import Clientwise, silos_of
    from fairsilo.fairness import Dgeo
    from fairsilo.model import logistic_regression
    from fairsilo.partition.federation import Federation
    from fairsilo.question import Problem
    from fairsilo.solver import Agp

    rng = np.random.default_rng(0)
    n = clients * PER_CLIENT
    x, y, s = rng.normal(size=(n, COLUMNS)), rng.integers(0, 2, n), rng.integers(0, 2, n)
    rows = Federation(x, y, s, np.arange(0, n + 1, PER_CLIENT), 2, 2)
    engine, pairs = Clientwise(silos_of(rows)), (Dgeo(0, 1, 1),) * constraints
    model, solver = logistic_regression(COLUMNS), Agp(tolerance=0.0)

    def run(rounds: int) -> Any:
        return engine.solve(Problem(model, pairs, 0.01, "pooled", solver, rounds, seed=0))

    return run, COLUMNS, x.nbytes


MAKE = {"clients": clientwise, "rows": pooled_rows, "features": pooled_features}


def measure(kind: str, size: int, constraints: int, rounds: int) -> dict[str, float]:
    """CPU and wall milliseconds per round and the peak memory, measured in this process.

    Memory is counted above that of a process with all imports but no rows.
    """
    from fairsilo.compute import jnp
    from fairsilo.question.round import numbers_down, numbers_up
    from fairsilo.solver import Agp

    jnp.zeros(1).block_until_ready()
    baseline = _memory("VmRSS")
    run, features, table = MAKE[kind](size, constraints)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of drawing the rows
    run(rounds)
    wall, cpu = time.perf_counter(), time.process_time()
    run(rounds)
    return {
        "cpu": (time.process_time() - cpu) / rounds * 1e3,
        "wall": (time.perf_counter() - wall) / rounds * 1e3,
        "up": 8 * numbers_up(Agp().order, features + 1, constraints),
        "down": 8 * numbers_down(features + 1, constraints),
        "table": table,
        "peak": _memory("VmHWM") - baseline,
    }


def _memory(key: str) -> int:
    """Bytes of this process, now (VmRSS) or at the peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if key in line) * 1024


def apart(kind: str, size: int, constraints: int, rounds: int) -> dict[str, float]:
    """`measure` in a separate process."""
    return in_process("growth", "measure", kind, size, constraints, rounds)


def in_process(module: str, function: str, *args: Any) -> dict[str, float]:
    """The result of a function of these benchmarks, run in a separate process."""
    call = f"{function}({', '.join(map(repr, args))})"
    code = f"import json; from benchmarks.{module} import {function}; print(json.dumps({call}))"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
        check=True,
        capture_output=True,
        text=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def slope(sizes: list[int], values: list[float]) -> float:
    """The exponent of the best-fitting power law."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


METHODS = {"fedfair": 1, "fedavg": 0}
"""The number of constraints of each method; FedAvg is FedFair without any."""


def grow(
    kind: str, repeats: int, sizes: list[int], methods: tuple[str, ...] = ("fedfair",)
) -> list[dict[str, Any]]:
    """Time, memory and bytes at every size, methods in turn, and the slopes."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        before = load()["load average, 1 minute"]
        rounds = 3 if size * (PER_CLIENT if kind == "clients" else 1) >= 300_000 else 20
        runs: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
        for _ in range(repeats):
            for method in methods:
                runs[method].append(apart(kind, size, METHODS[method], rounds))
        for method, mine in runs.items():
            common = {"workload": f"growth with {kind}", "contestant": "fairsilo", "size": size}
            common |= {"method": method, "table MB": mine[0]["table"] / 1e6}
            common["load"] = [before, load()["load average, 1 minute"]]
            for quantity, key, unit in (
                ("CPU ms per round", "cpu", 1.0),
                ("peak MB", "peak", 1e6),
                ("bytes up per client and round", "up", 1.0),
                ("bytes down per client and round", "down", 1.0),
            ):
                values = np.array([run[key] for run in mine]) / unit
                ours = np.array([run[key] for run in runs["fedfair"]]) / unit
                spread = {"spread": [float(values.min()), float(values.max())]}
                ratio = {"ratio to ours": float(np.median(values / ours))}
                value = {"quantity": quantity, "value": float(np.median(values))}
                rows.append({**common, **value, **spread, **ratio})
    for method in methods:
        rows += slopes(kind, method, [row for row in rows if row["method"] == method])
    return rows


def slopes(kind: str, method: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The exponents of time, and the table's part of the last growth in memory."""
    timed = [row for row in rows if row["quantity"] == "CPU ms per round"]
    peaks = [row for row in rows if row["quantity"] == "peak MB"]
    sizes, times = [row["size"] for row in timed], [row["value"] for row in timed]
    grown = peaks[-1]["value"] - peaks[-2]["value"]
    quantities = {
        "slope of time": slope(sizes, times),
        "slope of time, larger half": slope(sizes[-3:], times[-3:]),
        "growth of the peak over the table's": grown
        / (peaks[-1]["table MB"] - peaks[-2]["table MB"]),
    }
    common = {"workload": f"growth with {kind}", "contestant": "fairsilo", "method": method}
    rest = {"spread": [], "ratio to ours": 1.0}
    return [{**common, "quantity": name, "value": v, **rest} for name, v in quantities.items()]


def part(name: str, repeats: int) -> list[dict[str, Any]]:
    """Time and memory of one kind of growth; with clients, of FedAvg, too."""
    kind = name.removeprefix("growth with ")
    methods = ("fedfair", "fedavg") if kind == "clients" else ("fedfair",)
    return grow(kind, max(1, repeats // 2), SIZES[kind], methods)


PARTS = {f"growth with {kind}": part for kind in SIZES}
