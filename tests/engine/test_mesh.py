"""Rows spread over four devices sum to the same numbers as on one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fairsilo

SCRIPT = """
import sys
import numpy as np
from fairsilo.compute import jax
from fairsilo.sums import Compiled, Rows
from fairsilo.model import logistic_regression, mlp
from fairsilo.solver import Agp, Newton

rng = np.random.default_rng(0)
n = 203  # four devices do not share that evenly
x = np.concatenate([rng.normal(size=(n, 3)), np.eye(4)[rng.integers(0, 4, n)]], axis=1)
y, v = rng.integers(0, 2, n), rng.normal(size=(2, n)) / n
w = np.full(n, 1 / n)
found = []
for model, solver in ((logistic_regression(7), Newton()), (mlp(7), Agp())):
    for weights in (v[:1], np.stack([v[:1], v[1:]])):
        own = np.stack([w, w]) if weights.ndim == 3 else w
        engine = Compiled(model, Rows(x, y, own, weights))
        starts = np.stack([model.start(seed) for seed in range(2)])
        done = engine.solve_many(solver, starts, [[0.01], [0.02]], 8)
        found += [outcome.history.loss for outcome in done]
assert len(jax.devices()) == int(sys.argv[1])
assert len(engine.rows.y.sharding.device_set) == int(sys.argv[1])
print(*(repr(float(value)) for value in np.concatenate(found)))
"""


def losses(devices: int) -> list[float]:
    flags = f"--xla_force_host_platform_device_count={devices} {os.environ.get('XLA_FLAGS', '')}"
    path = str(Path(fairsilo.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(devices)],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(value) for value in done.stdout.split()]


@pytest.mark.process
@pytest.mark.slow
def test_four_devices_give_the_numbers_of_one() -> None:
    one, four = losses(1), losses(4)
    assert len(one) > 20
    assert max(abs(a - b) for a, b in zip(one, four, strict=True)) < 1e-9
