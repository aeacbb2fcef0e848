"""Programs run in several threads, as in `fairsilo reproduce` and a threaded grid search."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOUR = """
import threading
import numpy as np
from fairsilo.sums import Compiled, Rows
from fairsilo.model import logistic_regression
from fairsilo.solver import Newton

rng = np.random.default_rng(0)
n, runs = 200, 60
rows = Rows(rng.normal(size=(n, 40)), rng.integers(0, 2, n), np.full(n, 1 / n),
            rng.normal(size=(1, n)) / n)
engine, model = Compiled(logistic_regression(40), rows), logistic_regression(40)
starts, epsilons = np.zeros((runs, model.size)), np.linspace(1e-3, 0.1, runs)[:, None]
found = []
def work():
    for _ in range(3):
        found.append(engine.solve_many(Newton(), starts, epsilons, 12)[0].status.name)
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(100)
print(len(found), set(found))
"""


@pytest.mark.process
@pytest.mark.slow
def test_many_runs_in_four_threads_do_not_wait_for_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOUR], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "12 {'CONVERGED'}", done.stdout + done.stderr
