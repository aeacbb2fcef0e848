"""Your own JAX model under a fairness limit, in one file: any pair of functions init and apply.

    python examples/own_model.py

The classes depend on a product of two features, which logistic regression cannot see. To use the
model by name, also over a network where all silos have your package, declare it as an entry point:

    [project.entry-points."fairsilo.models"]
    bilinear = "own_model:bilinear"
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from fairsilo.engine import Clientwise, Pooled, silos_of
from fairsilo.fairness import Dgeo
from fairsilo.method import METHODS
from fairsilo.model import Model, logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem
from fairsilo.solver import Lbfgs


@lru_cache(maxsize=64)
def bilinear(features: int, classes: int = 2) -> Model:
    """Scores with all products of two features."""
    outputs = 1 if classes == 2 else classes

    def init(key: jax.Array) -> dict[str, jax.Array]:
        a, b = jax.random.split(key)
        return {
            "bilinear": 0.1 * jax.random.normal(a, (features, features, outputs)),
            "linear": 0.1 * jax.random.normal(b, (features, outputs)),
            "bias": jnp.zeros(outputs),
        }

    def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        product = jnp.einsum("ni,ijk,nj->nk", x, params["bilinear"], x)
        return product + x @ params["linear"] + params["bias"]

    return Model("bilinear", features, classes, init, apply)


def main() -> None:
    """Train it, and logistic regression beside it, across three clients, on two engines."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    s = rng.integers(0, 2, 900)
    logit = 4 * x[:, 0] * x[:, 1] - 1.5 * s
    y = (rng.random(900) < 1 / (1 + np.exp(-logit))).astype(int)
    federation = Federation.of(x, y, s, np.arange(900) % 3, groups=2, classes=2)
    problem = Problem(
        model=bilinear(3),
        constraints=(Dgeo(a=0, b=1, c=1),),
        epsilon=0.05,
        estimator="pooled",
        solver=Lbfgs(),
        rounds=300,
        seed=0,
    )
    for one in (problem, replace(problem, model=logistic_regression(3))):
        for engine in (Pooled(federation), Clientwise(silos_of(federation))):
            trained = METHODS["fedfair"](one, engine)
            right = (trained.predictors[0].labels(x, s, 0) == y).mean()
            gap, ended = float(trained.outcome.last.d[0]), trained.outcome.status.name
            where = type(engine).__name__
            print(f"{one.model.name}, {where}: accuracy {right:.2f}, gap {gap:.3f}, {ended}")


if __name__ == "__main__":
    main()
