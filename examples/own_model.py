"""Your own JAX model under a fairness limit: any pair of functions init and apply.

    python examples/own_model.py

The classes depend on a product of two features, which logistic regression cannot see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fairsilo.fairness.constraint import Dgeo
from fairsilo.method import METHODS, Task
from fairsilo.model import Model, logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.solver import Lbfgs


def init(key: jax.Array) -> dict[str, jax.Array]:
    """Small random parameters: any tree of arrays."""
    a, b = jax.random.split(key)
    return {
        "bilinear": 0.1 * jax.random.normal(a, (3, 3)),
        "linear": 0.1 * jax.random.normal(b, (3, 1)),
        "bias": jnp.zeros(1),
    }


def apply(params: dict[str, jax.Array], x: jax.Array) -> Any:
    """Scores (rows, 1): the log-odds of the second class."""
    product = jnp.sum(x @ params["bilinear"] * x, axis=1, keepdims=True)
    return product + x @ params["linear"] + params["bias"]


def main() -> None:
    """Train it, and logistic regression beside it, across three clients."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    s = rng.integers(0, 2, 900)
    logit = 4 * x[:, 0] * x[:, 1] - 1.5 * s
    y = (rng.random(900) < 1 / (1 + np.exp(-logit))).astype(int)

    task = Task(
        federation=Federation.of(x, y, s, np.arange(900) % 3, groups=2, classes=2),
        model=Model("bilinear", features=3, classes=2, init=init, apply=apply),
        constraints=(Dgeo(a=0, b=1, c=1),),
        epsilon=0.05,
        estimator="pooled",
        solver=Lbfgs(),
        rounds=300,
        seed=0,
    )
    for one in (task, replace(task, model=logistic_regression(3))):
        trained = METHODS["fedfair"](one, None)
        right = (trained.predictors[0].labels(x, s, 0) == y).mean()
        gap = float(trained.outcome.last.d[0])
        print(
            f"{one.model.name}: accuracy {right:.2f}, gap {gap:.3f}, {trained.outcome.status.name}"
        )


if __name__ == "__main__":
    main()
