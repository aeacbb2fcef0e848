"""A full FedFair run to the constrained optimum: rounds, bytes sent and CPU seconds.

Compares our Newton-SQP, L-BFGS-SQP and the paper's AGP on the same rows with the same estimator. A
solver has arrived when its loss is within a gap of the optimum and the constraint is violated by at
most that gap; every number sent has eight bytes, as over our network.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.arena import load
from fairsilo.engine import Pooled
from fairsilo.fairness import Constraint
from fairsilo.method import Trained
from fairsilo.method.fedfair import fedfair
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.solver import Agp, Lbfgs, Newton, Solver

CASES = {"adult": 0.1, "compas": 0.1, "drug": 0.01}
GAPS = (1e-3, 1e-4, 1e-5)
SOLVERS: tuple[tuple[Solver, int], ...] = ((Newton(), 50), (Lbfgs(), 1_000), (Agp(), 40_000))
"""The solvers and the most rounds of each."""
PAPER = 20_000
"""The rounds of AGP in the paper."""
WIDTH = 8


def solve(
    federation: Federation,
    constraints: tuple[Constraint, ...],
    epsilon: float,
    solvers: Sequence[tuple[Solver, int]] = SOLVERS,
) -> list[tuple[str, Trained, float]]:
    """Every solver's name, its run, and the CPU seconds of a round without compilation."""
    model, engine = logistic_regression(federation.x.shape[1]), Pooled(federation)
    found = []
    for solver, rounds in solvers:
        problem = Problem(model, constraints, epsilon, "mean", solver, rounds, seed=0)
        fedfair(problem, engine)
        started = time.process_time()
        trained = fedfair(problem, engine)
        spent = time.process_time() - started
        found.append((solver.name, trained, spent / trained.outcome.rounds))
    return found


def arrived(trained: Trained, optimum: float, gap: float) -> int | None:
    """The first round with loss and violation within the gap, or None."""
    history = trained.outcome.history
    near = (np.asarray(history.loss) <= optimum + gap) & (np.asarray(history.violation) <= gap)
    return int(np.argmax(near)) + 1 if near.any() else None


def costs(found: list[tuple[str, Trained, float]]) -> list[dict[str, Any]]:
    """Rounds, bytes and seconds of every solver to every gap, and AGP's 20,000 rounds."""
    optimum = float(found[0][1].outcome.last.loss)
    rows: list[dict[str, Any]] = []
    for gap in GAPS:
        ours: dict[str, float] = {}
        for name, trained, seconds in found:
            reached = arrived(trained, optimum, gap)
            taken = trained.outcome.rounds if reached is None else reached
            for row in _cost(name, trained, taken, seconds, ours):
                rows.append({**row, "gap": gap, "arrived": reached is not None})
    # The paper does not stop at a gap: compare its rounds to ours until convergence.
    ours = {}
    for name, trained, seconds in found:
        taken = PAPER if name == "agp" else trained.outcome.rounds
        for row in _cost(name, trained, taken, seconds, ours):
            rows.append({**row, "gap": None, "arrived": name != "agp"})
    for row in rows:
        last = next(t for name, t, _ in found if row["contestant"].endswith(name)).outcome.last
        row["loss above the optimum at the end"] = float(last.loss) - optimum
        row["violation at the end"] = float(last.violation)
    return rows


def _cost(
    name: str, trained: Trained, taken: int, seconds: float, ours: dict[str, float]
) -> list[dict[str, Any]]:
    values = {
        "rounds": float(taken),
        "bytes up per client": float(trained.numbers_up * taken * WIDTH),
        "CPU seconds": seconds * taken,
    }
    return [
        {
            "contestant": f"fairsilo, {name}",
            "quantity": quantity,
            "value": value,
            "spread": [],
            "ratio to ours": value / ours.setdefault(quantity, value),
        }
        for quantity, value in values.items()
    ]


def part(name: str, repeats: int) -> list[dict[str, Any]]:
    """All three data sets, as rows of the result."""
    rows: list[dict[str, Any]] = []
    for data, epsilon in CASES.items():
        before = load()["load average, 1 minute"]
        prepared = prepare(Options(data=data, epsilon=epsilon, estimator="mean"))
        found = costs(solve(prepared.federation, prepared.constraints, epsilon))
        common = {"workload": name, "data": data, "epsilon": epsilon}
        common["load"] = [before, load()["load average, 1 minute"]]
        rows += [{**common, **row} for row in found]
    return rows


PARTS = {"optimum": part}
