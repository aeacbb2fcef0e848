"""How time and memory grow: with clients (`clientwise`), with rows and with features (`pooled`).

Every size is measured in a process of its own, so that its peak memory is its own; the slope is
that of the logarithms, fitted by least squares: 1 is linear.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import ROOT, load

WIDTHS = (7, 16, 7, 14, 6, 5, 2, 41)
"""ADULT's categories; six numbers beside them make 104 columns."""
SIZES = {
    "clients": [10, 100, 1_000, 10_000],
    "rows": [10_000, 100_000, 1_000_000, 10_000_000],
    "features": [10, 32, 100, 320, 1_000],
}
PER_CLIENT, COLUMNS, TABLE = 32, 20, 20_000


def coded_rows(rows: int, seed: int = 0) -> Any:
    """ADULT-shaped rows as codes, drawn at random, without the dense matrix at any time."""
    from fairsilo.engine import Coded, Layout, Rows

    rng = np.random.default_rng(seed)
    starts = 6 + np.cumsum((0, *WIDTHS[:-1]))
    categories = tuple(zip(map(int, starts), WIDTHS, strict=True))
    layout = Layout(tuple(range(6)), categories, tuple((j,) for j in range(len(WIDTHS))))
    codes = np.empty((rows, len(WIDTHS)), np.uint8)
    for j, width in enumerate(WIDTHS):
        codes[:, j] = rng.integers(0, width, rows, np.uint8)
    numbers = rng.standard_normal((rows, 6), np.float32)
    y = (numbers[:, 0] + rng.standard_normal(rows, np.float32) > 0).astype(np.int32)
    w = np.full(rows, 1 / rows, np.float32)
    v = np.where(codes[:, 6] == 0, 1, -1).astype(np.float32)[None] * y * (4 / rows)
    return Rows(Coded(numbers, codes, layout), y, w, v.astype(np.float32))  # type: ignore[arg-type]


def pooled_rows(rows: int, constraints: int) -> tuple[Any, Any, int]:
    """An engine over coded rows, its solver, and the bytes of the coded table."""
    from fairsilo.engine import Pooled
    from fairsilo.model import logistic_regression

    table = coded_rows(rows)
    return Pooled(logistic_regression(104), table, np.float32), 104, table.x.nbytes


def pooled_features(features: int, constraints: int) -> tuple[Any, Any, int]:
    from fairsilo.engine import Pooled, Rows
    from fairsilo.model import logistic_regression

    rng = np.random.default_rng(0)
    x = rng.standard_normal((TABLE, features), np.float32)
    y = rng.integers(0, 2, TABLE)
    rows = Rows(x, y, np.full(TABLE, 1 / TABLE), rng.normal(size=(1, TABLE)) / TABLE)  # type: ignore[arg-type]
    return Pooled(logistic_regression(features), rows, np.float32), features, x.nbytes


def clientwise(clients: int, constraints: int) -> tuple[Any, Any, int]:
    from fairsilo.engine import Clientwise, Rows
    from fairsilo.model import logistic_regression

    rng = np.random.default_rng(0)
    n = clients * PER_CLIENT
    x = rng.normal(size=(n, COLUMNS))
    v = rng.normal(size=(constraints, n)) / n
    rows = Rows(x, rng.integers(0, 2, n), np.full(n, 1 / n), v)  # type: ignore[arg-type]
    offsets = np.arange(0, n + 1, PER_CLIENT)
    return Clientwise(logistic_regression(COLUMNS), rows, offsets), COLUMNS, x.nbytes


MAKE = {"clients": clientwise, "rows": pooled_rows, "features": pooled_features}


def measure(kind: str, size: int, constraints: int, rounds: int) -> dict[str, float]:
    """In this process: CPU and wall milliseconds per round, and the peak of memory meanwhile.

    Memory is counted above that of a process that has imported everything and drawn nothing.
    """
    from fairsilo.compute import jnp
    from fairsilo.solver import Agp

    jnp.zeros(1).block_until_ready()
    baseline = _memory("VmRSS")
    engine, features, table = MAKE[kind](size, constraints)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of drawing the rows
    start, epsilon = np.zeros(features + 1), np.full(constraints, 0.01)
    solver = Agp(tolerance=0.0)
    engine.solve(solver, start, epsilon, rounds)
    wall, cpu = time.perf_counter(), time.process_time()
    engine.solve(solver, start, epsilon, rounds)
    return {
        "cpu": (time.process_time() - cpu) / rounds * 1e3,
        "wall": (time.perf_counter() - wall) / rounds * 1e3,
        "table": table,
        "peak": _memory("VmHWM") - baseline,
    }


def _memory(key: str) -> int:
    """Bytes of this process, now (VmRSS) or at the peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if key in line) * 1024


def apart(kind: str, size: int, constraints: int, rounds: int) -> dict[str, float]:
    """`measure` in a process of its own."""
    call = f"measure({kind!r}, {size}, {constraints}, {rounds})"
    code = f"import json; from benchmarks.growth import measure; print(json.dumps({call}))"
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
    """The exponent of the power law that fits best."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def grow(kind: str, repeats: int, sizes: list[int], constraints: int = 1) -> list[dict[str, Any]]:
    """Time and memory at every size, and the slopes; memory without that of the smallest."""
    before = load()["load average, 1 minute"]
    rows: list[dict[str, Any]] = []
    for size in sizes:
        rounds = 3 if size * (PER_CLIENT if kind == "clients" else 1) >= 300_000 else 20
        runs = [apart(kind, size, constraints, rounds) for _ in range(repeats)]
        times = [run["cpu"] for run in runs]
        common = {"workload": f"growth with {kind}", "contestant": "fairsilo", "size": size}
        method = {"method": "fedfair" if constraints else "fedavg"}
        rows.append(
            {
                **common,
                **method,
                "quantity": "CPU ms per round",
                "value": float(np.median(times)),
                "spread": [min(times), max(times)],
                "ratio to ours": 1.0,
                "load": [before, load()["load average, 1 minute"]],
            }
        )
        peaks = [run["peak"] / 1e6 for run in runs]
        rows.append(
            {
                **common,
                **method,
                "quantity": "peak MB",
                "value": float(np.median(peaks)),
                "spread": [min(peaks), max(peaks)],
                "ratio to ours": 1.0,
                "table MB": runs[0]["table"] / 1e6,
            }
        )
    times = [row["value"] for row in rows if row["quantity"] == "CPU ms per round"]
    for quantity, some in (
        ("slope of time", slice(None)),
        ("slope of time, larger half", slice(-3, None)),
    ):
        rows.append(
            {
                "workload": f"growth with {kind}",
                "contestant": "fairsilo",
                **method,
                "quantity": quantity,
                "value": slope(sizes[some], times[some]),
                "spread": [],
                "ratio to ours": 1.0,
            }
        )
    return rows


def part(name: str, repeats: int) -> list[dict[str, Any]]:
    kind = name.removeprefix("growth with ")
    rows = grow(kind, max(1, repeats // 2), SIZES[kind])
    if kind == "clients":
        rows += grow(kind, max(1, repeats // 2), SIZES[kind], constraints=0)
    return rows


PARTS = {f"growth with {kind}": part for kind in SIZES}
