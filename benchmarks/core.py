"""How close one AGP round is to the two matrix products it contains, and what many runs cost.

    python -m benchmarks.core            # ADULT, ratios in one run
    python -m benchmarks.core --scale    # 1,000,000 x 100, 1,000 clients: time and peak memory

The bare products X @ Theta and X' @ R run in the same kind of compiled loop on the same array,
alternating with ours, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from functools import partial

import numpy as np

from fairsilo.coded import dense
from fairsilo.compute import Array, jax, jnp
from fairsilo.fairness import Dgeo
from fairsilo.fairness.weigh import weighted
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.solver import Agp, Newton
from fairsilo.sums import Compiled, Rows

ROUNDS = 500
RUNS = 32


@partial(jax.jit, static_argnames="rounds")
def bare_products(x: Array, theta: Array, rounds: int) -> Array:
    """X @ Theta, then X' @ R, `rounds` times; each feeds the next so that none is dropped."""

    def body(_: int, theta: Array) -> Array:
        return (x @ theta).T @ x * 1e-9 if theta.ndim == 1 else ((x @ theta).T @ x).T * 1e-9

    result: Array = jax.lax.fori_loop(0, rounds, body, theta)
    return result


def seconds(function, *args) -> float:  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002
    """CPU seconds, which other processes disturb less than wall time."""
    started = time.process_time()
    jax.block_until_ready(function(*args))  # type: ignore[no-untyped-call]
    return time.process_time() - started


def agp_loop(engine: Compiled, runs: int):  # type: ignore[no-untyped-def] # noqa: ANN201
    """Our loop over ROUNDS rounds of `runs` runs, as a function without arguments."""
    solver = Agp(tolerance=0.0)
    start = jnp.zeros((runs, engine.model.size), engine.dtype)
    epsilon = jnp.linspace(1e-3, 0.4, runs, dtype=engine.dtype)[:, None]
    state = jax.vmap(solver.init)(start, epsilon)
    return lambda: engine.advance(solver, ROUNDS, False, state)[0].theta


def ratios(repeats: int) -> dict[str, object]:
    """Milliseconds per round, ours and bare, and their ratios (median over repetitions)."""
    prepared = prepare(Options(data="adult"))
    federation = prepared.federation
    _, w, v = weighted(federation, prepared.constraints, "mean")
    model = logistic_regression(federation.x.shape[1])
    engine = Compiled(model, Rows(federation.x, federation.y, w, v), np.float32)  # type: ignore[arg-type]
    x = jnp.asarray(dense(federation.x), jnp.float32)
    contestants = {
        "bare, one run": lambda: bare_products(x, jnp.zeros(x.shape[1], x.dtype), ROUNDS),
        "ours, one run": agp_loop(engine, 1),
        "bare, 32 runs": lambda: bare_products(x, jnp.zeros((x.shape[1], RUNS), x.dtype), ROUNDS),
        "ours, 32 runs": agp_loop(engine, RUNS),
    }
    for run in contestants.values():
        jax.block_until_ready(run())  # type: ignore[no-untyped-call]
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            times[name].append(seconds(run) / ROUNDS * 1e3)
    pairs = [
        ("one round over its bare products", "ours, one run", "bare, one run"),
        ("32 runs over their bare products", "ours, 32 runs", "bare, 32 runs"),
        ("32 runs over one run", "ours, 32 runs", "ours, one run"),
    ]
    return {
        "rows": federation.rows,
        "columns": x.shape[1],
        "CPU milliseconds per round": {
            name: {"median": float(np.median(t)), "min": min(t), "max": max(t)}
            for name, t in times.items()
        },
        "ratios": {
            name: float(np.median(np.array(times[a]) / np.array(times[b]))) for name, a, b in pairs
        },
    }


def scale(rows: int, columns: int, clients: int) -> dict[str, object]:
    """A large federation: seconds per round of each kind and the peak memory of the process."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    s = rng.integers(0, 2, rows)
    y = (x[:, 0] + 0.5 * s + rng.logistic(size=rows) > 0).astype(np.int64)
    client = np.sort(rng.integers(0, clients, rows))
    federation = Federation.of(x, y, s, client, groups=2, classes=2)
    del x
    _, w, v = weighted(federation, [Dgeo(0, 1, 1)], "mean")
    model = logistic_regression(columns)
    table = Rows(federation.x, federation.y, w, v)  # type: ignore[arg-type]
    table_bytes = federation.x.nbytes
    started = time.perf_counter()
    newton = Compiled(model, table).solve(Newton(), model.start(0), [0.01], 20)
    newton_seconds = time.perf_counter() - started
    engine = Compiled(model, table, np.float32)
    engine.solve(Agp(), model.start(0), [0.01], 1)
    started = time.perf_counter()
    engine.solve(Agp(), model.start(0), [0.01], 20)
    return {
        "rows": rows,
        "columns": columns,
        "clients": federation.clients,
        "newton rounds to the optimum": newton.rounds,
        "newton converged": newton.status.name,
        "newton seconds": newton_seconds,
        "agp seconds per round": (time.perf_counter() - started) / 20,
        "table bytes (float64)": table_bytes,
        "peak memory bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", action="store_true", help="1,000,000 x 100, 1,000 clients")
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    result = scale(1_000_000, 100, 1_000) if args.scale else ratios(args.repeats)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
