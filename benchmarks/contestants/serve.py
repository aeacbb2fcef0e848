"""Serve a contestant: one line on standard input, one line of JSON as the answer.

    python contestants/NAME.py WORKLOAD.npz          then lines "ROUNDS SETTINGS"

The process keeps running, so that contestants are warm when they take turns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.workload import Workload

Run = Callable[[int, int], np.ndarray]
"""(rounds, settings) -> theta of each setting, (settings, parameters)."""


Spent = dict[str, float]


def serve(prepare: Callable[[Workload], Run], spent: Callable[[], Spent] | None = None) -> None:
    """Prepare the workload once, then answer until standard input ends.

    A contestant's own figures from `spent`, if given, are used: it starts several processes, or
    starts them for every call.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a framework prints goes to standard error
    run = prepare(Workload.load(Path(sys.argv[1])))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        rounds, settings = map(int, line.split())
        wall, cpu = time.perf_counter(), time.process_time()
        theta = np.asarray(run(rounds, settings), np.float64)
        answer = {
            "seconds": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "theta": theta.tolist(),
        }
        if spent:
            answer |= {**spent(), "told": True}
        print(json.dumps(answer), file=answers, flush=True)
