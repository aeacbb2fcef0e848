"""FairSilo on one GPU, against the naive prototype's figures; no contestant but the hardware.

    PYTHONPATH=src python -m benchmarks.gpu [--small] [--out benchmarks/results/gpu.json]

Everything in one process of a few minutes: ADULT-shaped rounds of one run and of 64, the 8-4
network, 10^7 rows x 104 columns as codes and dense, and the card's copy bandwidth in the same run.
Of the project's dependencies it needs only JAX and NumPy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import coded_rows
from fairsilo.coded import Coded, dense
from fairsilo.compute import Array, jax, jnp
from fairsilo.model import Model, logistic_regression, mlp
from fairsilo.solver import Agp, Newton, Order, Query
from fairsilo.sums import Compiled, Rows, placed
from fairsilo.sums.rows import many_sums

PROTOTYPE = {
    "round": ("rounds per second", 51_600.0),
    "64 runs": ("run-rounds per second", 1.1e6),
    "network, 64 runs": ("ms per round", 0.43),
    "10^7 rows, dense": ("ms per round", 4.1),
    "10^7 rows, codes": ("ms per round", 4.1),
}
"""Dense float32, rounds inside one compiled loop, two reads of X per round; one NVIDIA H200."""
RUNS = 64


def seconds(function: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Each repetition's seconds, after one that compiles."""
    jax.block_until_ready(function())  # type: ignore[no-untyped-call]
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(function())  # type: ignore[no-untyped-call]
        found.append(time.perf_counter() - started)
    return found


def loop(model: Model, rows: Rows, runs: int, rounds: int) -> Callable[[], Any]:
    """Our engine: `rounds` AGP rounds of `runs` runs in one call."""
    engine, solver = Compiled(model, rows, np.float32), Agp(tolerance=0.0)
    start = jnp.asarray(np.tile(model.start(0), (runs, 1)), jnp.float32)
    epsilon = jnp.linspace(1e-3, 0.4, runs, dtype=jnp.float32)[:, None]
    state = jax.vmap(solver.init)(start, epsilon)
    return lambda: engine.advance(solver, rounds, True, state)[0].theta


def together(model: Model, rows: Rows, runs: int, rounds: int) -> Callable[[], Any]:
    """The gradient alone, the runs side by side in one product, as a CPU does it."""
    start = jnp.asarray(np.tile(model.start(0), (runs, 1)), jnp.float32)

    @partial(jax.jit, static_argnames="rounds")
    def go(rows: Rows, thetas: Array, rounds: int) -> Array:
        def body(_: int, thetas: Array) -> Array:
            query = Query(thetas, jnp.zeros((runs, 1), thetas.dtype))
            sums = many_sums(model, Order.LAGRANGIAN, rows, query)
            moved: Array = thetas - 0.05 * sums.grad - 1e-9 * (sums.loss[:, None] + sums.d)
            return moved

        result: Array = jax.lax.fori_loop(0, rounds, body, thetas)
        return result

    put = jax.tree.map(jnp.asarray, rows)
    return lambda: go(put, start, rounds)


def row(workload: str, contestant: str, quantity: str, values: list[float], **more: Any) -> Any:
    """A line of the result; the ratio to the prototype is above 1 if ours is better."""
    median = float(np.median(values))
    line = {"workload": workload, "contestant": contestant, "quantity": quantity, "value": median}
    line |= {"spread": [min(values), max(values)], **more}
    theirs = PROTOTYPE.get(workload)
    if theirs and theirs[0] == quantity:
        faster = theirs[1] / median if quantity.startswith("ms") else median / theirs[1]
        line |= {"prototype": theirs[1], "times the prototype": faster}
    print(json.dumps(line), flush=True)
    return line


def peak() -> float:
    stats = jax.devices()[0].memory_stats() or {}
    return float(stats.get("peak_bytes_in_use", 0)) / 1e6


def bandwidth(elements: int) -> float:
    """Bytes read and written per second by a minimal kernel."""
    x = jnp.ones(elements, jnp.float32)
    add = jax.jit(lambda x: x + 1)
    return 8 * elements / min(seconds(lambda: add(x)))


def measure(small: bool) -> list[dict[str, Any]]:
    """All workloads, small ones first, so that the peak of memory is that of the last."""
    n, many, calls = (2_000, 20_000, 5) if small else (40_000, 10_000_000, 2_000)
    copied = bandwidth(10**6 if small else 10**9)
    found = [row("copy", "card", "GB per second", [copied / 1e9])]
    table = coded_rows(n)
    adult = Rows(np.asarray(dense(table.x)), table.y, table.w, table.v)  # type: ignore[arg-type]
    lr, network = logistic_regression(104), mlp(104)
    for name, make in (("fairsilo", loop), ("runs side by side", together)):
        times = [t / calls for t in seconds(make(lr, adult, 1, calls))]
        found.append(row("round", name, "rounds per second", [1 / t for t in times]))
        times = [t / calls for t in seconds(make(lr, adult, RUNS, calls))]
        found.append(row("64 runs", name, "run-rounds per second", [RUNS / t for t in times]))
    times = seconds(loop(network, adult, RUNS, calls // 5))
    per_round = [t / (calls // 5) * 1e3 for t in times]
    found.append(row("network, 64 runs", "fairsilo", "ms per round", per_round))

    rounds = 5 if small else 50
    table = coded_rows(many)
    bytes_read = table.x.nbytes + 12 * many
    times = [t / rounds * 1e3 for t in seconds(loop(lr, table, 1, rounds), 3)]
    more = {
        "share of copy bandwidth": bytes_read / (float(np.median(times)) / 1e3) / copied,
        "peak MB": peak(),
        "read MB": bytes_read / 1e6,
    }
    found.append(row("10^7 rows, codes", "fairsilo", "ms per round", times, **more))
    whole = Rows(dense(placed(table.x, np.float32)), table.y, table.w, table.v)
    times = [t / rounds * 1e3 for t in seconds(loop(lr, whole, 1, rounds), 3)]
    share = (2 * many * 104 * 4) / (float(np.median(times)) / 1e3) / copied
    more = {"share of copy bandwidth": share, "peak MB": peak()}
    found.append(row("10^7 rows, dense", "fairsilo", "ms per round", times, **more))
    del whole, table
    times = newton_rounds(many)
    found.append(row("10^7 rows, Newton", "fairsilo", "s per round", times, **{"peak MB": peak()}))
    return found


WIDE = (9, 5, 500, 220, 18, 9, 40, 30)
"""Values of the categories of a table of 14 columns: with six numbers 838 parameters."""


def wide_rows(rows: int) -> tuple[Any, Any, Any]:
    """A table of 14 columns as codes, made up; its classes, and two groups."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, width, rows) for width in WIDE]
    columns += list(rng.standard_normal((6, rows)))
    x = Coded.of((*WIDE, 0, 0, 0, 0, 0, 0), columns, rows)
    y = (columns[-1] + rng.logistic(size=rows) > 0).astype(np.uint8)
    return x, y, (columns[1] != 0).astype(np.uint8)


def newton_rounds(rows: int) -> list[float]:
    """Seconds of each of three Newton rounds, the compiler's time apart."""
    x, y, s = wide_rows(rows)
    v = np.where(s == 0, 4 / rows, -4 / rows)[None] * y
    model, solver = logistic_regression(x.shape[1]), Newton()
    engine = Compiled(model, Rows(x, y, np.full(rows, 1 / rows), v))  # type: ignore[arg-type]
    state = jax.vmap(solver.init)(jnp.zeros((1, model.size)), jnp.full((1, 1), 0.01))
    times = []
    for _ in range(4):
        started = time.perf_counter()
        state = jax.block_until_ready(engine.advance(solver, 1, False, state))[0]  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - started)
    return times[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/gpu.json")
    options = parser.parse_args()
    device = jax.devices()[0]
    print(jax.__version__, device.platform, device.device_kind, flush=True)
    found = measure(options.small)
    for line in found:
        line["device"] = device.device_kind
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
