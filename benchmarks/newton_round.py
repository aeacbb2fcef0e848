"""Newton's rounds on the CPU through the engine, over the made-up rows that a GPU gets, too.

    python -m benchmarks.newton_round ROWS

A round is the sums over all rows and the step. What is done once, such as weights, is taken out: it
is the difference of a training of four rounds and one of one.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks.gpu import wide_rows
from fairsilo.engine import Pooled
from fairsilo.fairness import Dgeo
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem
from fairsilo.solver import Newton

ROUNDS = 4


def measured(rows: int) -> dict[str, float]:
    """CPU seconds of a round, and the peak of the process with the making of its rows."""
    x, y, s = wide_rows(rows)
    silo = np.zeros(rows, np.int64)
    engine = Pooled(Federation.of(x, y, s, silo, groups=2, classes=2))
    model, pair, solver = logistic_regression(x.shape[1]), Dgeo(0, 1, 1), Newton(tolerance=0.0)
    problem = Problem(model, (pair,), 0.01, "pooled", solver, ROUNDS, 0)
    spent = []
    for rounds in (1, ROUNDS):
        started = time.process_time()
        taken = engine.solve(replace(problem, rounds=rounds)).rounds
        if taken != rounds:
            raise SystemExit(f"{taken} rounds instead of {rounds}")
        spent.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"CPU seconds per round": (spent[1] - spent[0]) / (ROUNDS - 1), "peak GB": peak}


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
