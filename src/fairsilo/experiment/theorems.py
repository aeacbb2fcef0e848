"""The paper's theorems, checked on held-out rows of ADULT.

A model theta is trained on one half of the table. The other half, which training did not see,
serves as the distribution D: rows are drawn from it with replacement, so that the true difference
L^{a,c} - L^{b,c} is known. Federations of N clients with m rows each are drawn repeatedly.

    Theorem 2's variance   Var[ (1/N) sum_i D_i ] = sigma_avg^2 / N
    Theorem 2's bound      P( |D| < |D_fed| + r ) >= 1 - sigma_avg^2 / (N r^2)
    Theorem 1's bound      P( |D| < |D_i|   + r ) >= 1 - sigma_i^2 / r^2        (one client)

`held` is how often the bound held, `within` how often the estimate was within r of the truth,
which is the event that Chebyshev's inequality bounds in the proof.

A client whose rows miss a cell is drawn again, since the paper's estimate is not defined for it.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairsilo import __version__
from fairsilo.arrays import Floats
from fairsilo.run import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.settle import Settled
from fairsilo.run.train import train

CLIENTS = (1, 2, 5, 10, 20, 50)
ROWS = 400
DRAWS = 2_000


@dataclass(frozen=True)
class Population:
    """The losses of the two cells, and the probability of a row to be in each."""

    losses: tuple[Floats, Floats]
    share: tuple[float, float]

    @property
    def truth(self) -> float:
        """L^{a,c} - L^{b,c}."""
        return float(self.losses[0].mean() - self.losses[1].mean())


def population(seed: int = 0) -> Population:
    """Train on one half of ADULT and take the losses of the other half."""
    options = Options(data="adult", test_fraction=0.5, seed=seed)
    prepared = prepare(options)
    problem = Settled(plan(options, prepared))
    (predictor,) = train(options, problem, prepared.engine(options)).predictors
    x, y, s = prepared.test_x, prepared.test_y, prepared.test_s
    losses = predictor.losses(x, y, s)
    sides = prepared.constraints[0].sides(len(prepared.schema.groups), len(prepared.schema.classes))
    cells = [side[s, y] for side in sides]
    return Population(
        (losses[cells[0]], losses[cells[1]]), (float(cells[0].mean()), float(cells[1].mean()))
    )


def local_estimates(rng: np.random.Generator, people: Population, count: int) -> Floats:
    """D_i of `count` clients with ROWS rows each."""
    p_a, p_b = people.share
    sizes = np.zeros((0, 2), dtype=np.int64)
    while len(sizes) < count:
        drawn = rng.multinomial(ROWS, [p_a, p_b, 1 - p_a - p_b], size=count)[:, :2]
        sizes = np.concatenate([sizes, drawn[(drawn > 0).all(axis=1)]])
    sizes = sizes[:count]
    means = []
    for cell in (0, 1):
        values = rng.choice(people.losses[cell], size=int(sizes[:, cell].sum()))
        starts = np.concatenate([[0], np.cumsum(sizes[:, cell])[:-1]])
        means.append(np.add.reduceat(values, starts) / sizes[:, cell])
    return means[0] - means[1]


def check(seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """For each N: the variance against sigma_avg^2/N, and how often each bound held."""
    people = population(seed)
    rng = np.random.default_rng(seed)
    sigma2 = float(local_estimates(rng, people, 200_000).var())
    rows = []
    for clients in CLIENTS:
        local = local_estimates(rng, people, clients * draws).reshape(draws, clients)
        fed = local.mean(axis=1)
        predicted = sigma2 / clients
        # Radii at which the bounds guarantee 75, 90 and 95 percent.
        for promised in (0.75, 0.9, 0.95):
            r_fed = np.sqrt(predicted / (1 - promised))
            r_one = np.sqrt(sigma2 / (1 - promised))
            rows.append(
                {
                    "clients": clients,
                    "rows_per_client": ROWS,
                    "draws": draws,
                    "sigma_avg2_over_n": predicted,
                    "variance": float(fed.var(ddof=1)),
                    "promised": promised,
                    "radius_fedfair": float(r_fed),
                    "held_fedfair": float(np.mean(abs(people.truth) < np.abs(fed) + r_fed)),
                    "within_fedfair": float(np.mean(np.abs(fed - people.truth) < r_fed)),
                    "radius_lco": float(r_one),
                    "held_lco": float(np.mean(abs(people.truth) < np.abs(local[:, 0]) + r_one)),
                    "within_lco": float(np.mean(np.abs(local[:, 0] - people.truth) < r_one)),
                    "true_difference": people.truth,
                    "seed": seed,
                    "fairsilo": __version__,
                }
            )
    return pd.DataFrame(rows)
