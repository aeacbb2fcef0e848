"""A full FedFair run to the constrained optimum: rounds, numbers sent and CPU seconds.

Newton-SQP against the paper's AGP, both ours, on the same rows: AGP counts as arrived when its
loss is within 1e-4 of the optimum and the constraint holds within 1e-4.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import load
from fairsilo.method.base import Task
from fairsilo.method.constrained import fedfair
from fairsilo.model import logistic_regression
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.solver import Agp, Newton

CASES = {"adult": 0.1, "compas": 0.1, "drug": 0.01}
NEAR = 1e-4
MOST = 40_000
WIDTH = {"newton": 8, "agp": 4}
"""Bytes of a number on the wire: Newton sends float64, AGP is content with float32."""


def solve(data: str, epsilon: float, raw: Path | None) -> list[dict[str, Any]]:
    prepared = prepare(Options(data=data, epsilon=epsilon, estimator="mean", data_dir=raw))
    federation = prepared.federation
    model = logistic_regression(federation.x.shape[1])
    found: list[dict[str, Any]] = []
    optimum = np.inf
    for solver, rounds in ((Newton(), 50), (Agp(), MOST)):
        task = Task(
            federation, model, prepared.constraints, epsilon, "mean", solver, rounds, seed=0
        )
        started = time.process_time()
        trained = fedfair(task)
        spent = time.process_time() - started
        history = trained.outcome.history
        taken = trained.outcome.rounds
        if solver.name == "newton":
            optimum, reached = float(trained.outcome.last.loss), taken
        else:
            near = (np.asarray(history.loss) <= optimum + NEAR) & (
                np.asarray(history.violation) <= NEAR
            )
            reached = int(np.argmax(near)) + 1 if near.any() else taken
        sent = trained.numbers_up * reached * WIDTH[solver.name]
        values = {
            "rounds": reached,
            "bytes up per client": sent,
            "CPU seconds": spent * reached / taken,
            "loss above the optimum": float(trained.outcome.last.loss) - optimum,
        }
        found.append({"solver": solver.name, "arrived": reached < taken or solver.name == "newton"})
        found[-1].update(values)
    return found


def part(name: str, repeats: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    before = load()["load average, 1 minute"]
    for data, epsilon in CASES.items():
        found = solve(data, epsilon, None)
        ours = found[0]
        for run in found:
            for quantity in ("rounds", "bytes up per client", "CPU seconds"):
                rows.append(
                    {
                        "workload": name,
                        "contestant": f"fairsilo, {run['solver']}",
                        "data": data,
                        "epsilon": epsilon,
                        "quantity": quantity,
                        "value": run[quantity],
                        "spread": [],
                        "ratio to ours": run[quantity] / ours[quantity],
                        "arrived": run["arrived"],
                        "loss above the optimum": run["loss above the optimum"],
                        "load": [before, load()["load average, 1 minute"]],
                    }
                )
    return rows


PARTS = {"optimum": part}
