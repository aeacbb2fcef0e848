"""The theorems with theta trained on the rows that estimate its gap, as the paper uses them.

The proof needs an estimate that is right on average. Training makes the estimate small on its own
rows, so that it is not: this measures by how much, and how FedFair and LCO compare on the
population. Rows are drawn from one half of ADULT, which is the population.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairsilo import __version__
from fairsilo.engine import Pooled
from fairsilo.experiment.theorems import ROWS, cells_of, local_estimates, people_of
from fairsilo.method import METHODS
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Plain
from fairsilo.run import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan

PROMISED = 0.95


def check_trained(
    seed: int = 0, draws: int = 60, clients: int = 10, epsilon: float = 0.05
) -> pd.DataFrame:
    """A line for each draw and method: the gap on its own rows, and in the population.

    `estimate` is the mean of the clients' own gaps, the theorems' D_fed. `radius` is Theorem 2's
    for 95 %, from theta's own variance in the population.
    """
    options = Options(data="adult", test_fraction=0.5, seed=seed, estimator="mean")
    prepared = prepare(options)
    problem = replace(plan(options, prepared), epsilon=epsilon)
    x, y, s = prepared.test_x, prepared.test_y, prepared.test_s
    shape: dict[str, Any] = {
        "groups": len(prepared.schema.groups),
        "classes": len(prepared.schema.classes),
    }
    a, b = cells_of(prepared)
    rng = np.random.default_rng(seed)
    lines = []
    for draw in range(draws):
        rows = rng.integers(len(y), size=clients * ROWS)
        client = np.repeat(np.arange(clients), ROWS)
        drawn = Pooled(Federation.of(x[rows], y[rows], s[rows], client, **shape))
        for method in ("fedfair", "lco"):
            theta = METHODS[method](problem, drawn).outcome.theta
            losses = Plain(problem.model, theta).losses(x, y, s)
            people = people_of(losses, a, b)
            own = [
                people_of(losses[mine], a[mine], b[mine])
                for mine in np.split(rows, clients)
                if a[mine].any() and b[mine].any()
            ]
            sigma2 = float(local_estimates(rng, people, np.full(4_000, ROWS)).var())
            lines.append(
                {
                    "draw": draw,
                    "method": method,
                    "clients": clients,
                    "rows_per_client": ROWS,
                    "epsilon": epsilon,
                    "estimate": float(np.mean([one.truth for one in own])),
                    "truth": people.truth,
                    "radius": float(np.sqrt(sigma2 / clients / (1 - PROMISED))),
                    "seed": seed,
                    "fairsilo": __version__,
                }
            )
    return pd.DataFrame(lines)
