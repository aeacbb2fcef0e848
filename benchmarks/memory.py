"""Memory from a table to training rounds, in addition to the table, with codes and with a matrix.

A pandas table of ADULT's shape (six float32 numbers, eight categories: 104 columns when encoded) is
encoded, given to the engine, and three AGP rounds are run, in a separate process. Memory is counted
above that of the same process when it holds the table and has compiled and run the same rounds over
1,000 rows; it is compared to a table of one byte for each category and four for each number, 32
bytes a row.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import load
from benchmarks.growth import WIDTHS, _memory, in_process

NUMBERS = 6
SIZES = {"codes": (1_000_000, 10_000_000), "matrix": (1_000_000,)}
FEW = 1_000


def table(rows: int) -> Any:
    """A pandas table with small types, drawn at random."""
    import pandas as pd

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for i in range(NUMBERS):
        columns[f"number {i}"] = rng.standard_normal(rows, np.float32)
    for j, width in enumerate(WIDTHS):
        names = [f"{j}.{value}" for value in range(width)]
        values = rng.integers(0, width, rows, np.int8)
        columns[f"category {j}"] = pd.Categorical.from_codes(values, pd.Index(names))
    return pd.DataFrame(columns, copy=False)


def encoder_of(frame: Any) -> Any:
    """An encoder fitted on the first rows; any fixed scaling will do."""
    from fairsilo.data import Category, Encoder, EncoderSums, Number, Schema

    numbers = [Number(name=f"number {i}") for i in range(NUMBERS)]
    categories = [
        Category(name=f"category {j}", values=tuple(frame[f"category {j}"].cat.categories))
        for j in range(len(WIDTHS))
    ]
    schema = Schema(
        features=(*numbers, *categories),
        label="y",
        classes=("0", "1"),
        group="g",
        groups=("a", "b"),
    )
    return Encoder.fit(schema, EncoderSums.of(frame.head(FEW), schema))


def rounds(frame: Any, encoder: Any, way: str) -> None:
    """Encode, pass to the engine, run three rounds."""
    from fairsilo.coded import aligned
    from fairsilo.model import logistic_regression
    from fairsilo.solver import Agp
    from fairsilo.sums import Compiled, Rows

    n = len(frame)
    y, w, v = aligned((n,), np.uint8), aligned((n,), np.float32), aligned((1, n), np.float32)
    y[:] = np.arange(n, dtype=np.uint32) % 3 == 0
    w[:], v[:] = 1 / n, y
    v[0, ::2] *= -1
    if way == "codes":
        x: Any = encoder.encode(frame, np.float32)
    else:
        x = encoder.transform(frame)
    engine = Compiled(logistic_regression(x.shape[1]), Rows(x, y, w, v), np.float32)  # type: ignore[arg-type]
    del x
    engine.solve(Agp(tolerance=0.0), np.zeros(engine.model.size), np.array([0.01]), 3)


def measure(rows: int, way: str) -> dict[str, float]:
    """The peak of this process in bytes, and as a multiple of the coded table."""
    few = table(FEW)
    idle = _memory("VmRSS")
    rounds(few, encoder_of(few), way)
    warm = _memory("VmRSS") - idle
    frame = table(rows)
    encoder = encoder_of(frame)
    baseline = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    started = time.process_time()
    rounds(frame, encoder, way)
    spent = time.process_time() - started
    coded = rows * (4 * NUMBERS + len(WIDTHS))
    peak = _memory("VmHWM") - baseline
    return {"peak": peak, "coded": coded, "warm": warm, "cpu": spent}


def part(name: str, repeats: int) -> list[dict[str, Any]]:
    """Codes and matrix at all sizes, as rows of the result."""
    found: list[dict[str, Any]] = []
    for way, sizes in SIZES.items():
        for size in sizes:
            before = load()["load average, 1 minute"]
            told = in_process("memory", "measure", size, way)
            found.append(
                {
                    "workload": name,
                    "contestant": f"fairsilo, {way}",
                    "size": size,
                    "quantity": "peak over the coded table",
                    "value": told["peak"] / told["coded"],
                    "spread": [],
                    "ratio to ours": told["peak"] / told["coded"] / _first(found, told),
                    "peak MB": told["peak"] / 1e6,
                    "coded MB": told["coded"] / 1e6,
                    "compiler MB": told["warm"] / 1e6,
                    "CPU seconds": told["cpu"],
                    "load": [before, load()["load average, 1 minute"]],
                }
            )
    return found


def _first(found: list[dict[str, Any]], told: dict[str, float]) -> float:
    return float(found[0]["value"]) if found else told["peak"] / told["coded"]


PARTS = {"memory from a table": part}
