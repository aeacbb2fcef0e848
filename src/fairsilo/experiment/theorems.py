"""The paper's theorems on rows of ADULT, where they could fail.

One half of the table trains a model theta. The other half, which training did not see, serves as
the distribution D: rows are drawn from it with replacement, so that the true difference
L^{a,c} - L^{b,c} is known. Federations of N clients are drawn repeatedly.

    Theorem 2's variance   Var[ (1/N) sum_i D_i ] = sigma_avg^2 / N
    Theorem 2's bound      P( |D| < |D_fed| + r ) >= 1 - sigma_avg^2 / (N r^2)
    Theorem 1's bound      P( |D| < |D_i|   + r ) >= 1 - sigma_i^2 / r^2        (one client)

`held` is how often the bound held, `within` how often the estimate was within r of the truth,
which is the event that Chebyshev's inequality bounds in the proof. `held_zero` is how often the
bound would hold for an estimator that always answers 0: where it is 1, holding shows nothing.

    limited   theta under FedFair's limit; N clients of 400 rows: |D| is below most radii
    free      theta without a limit: |D| is larger than the radius of many clients
    unequal   the same theta; a quarter of the clients has 1,600 rows, the others 100. Theorem 1's
              client is then the one with the most rows, whose sigma_min is below sigma_avg.

A client whose rows miss a cell is drawn again, since the paper's estimate is not defined for it.
Theta trained on the very rows that estimate its gap, as the paper uses it: `theorems_trained`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairsilo import __version__
from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.run import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import plan
from fairsilo.run.settle import Settled
from fairsilo.run.train import train

CLIENTS = (1, 2, 5, 10, 20, 50)
ROWS = 400
DRAWS = 2_000
PROMISED = (0.75, 0.9, 0.95)
SCENARIOS = {"limited": "fedfair", "free": "fedavg", "unequal": "fedavg"}
"""How theta was trained."""
SAMPLE = 100_000
"""Clients that a variance is taken over."""


@dataclass(frozen=True)
class Population:
    """The losses of the two cells, and the probability of a row to be in each."""

    losses: tuple[Floats, Floats]
    share: tuple[float, float]

    @property
    def truth(self) -> float:
        """L^{a,c} - L^{b,c}."""
        return float(self.losses[0].mean() - self.losses[1].mean())


def population(seed: int = 0, method: str = "fedfair") -> Population:
    """Train on one half of ADULT and take the losses of the other half."""
    options = Options(data="adult", test_fraction=0.5, seed=seed, method=method)
    prepared = prepare(options)
    problem = Settled(plan(options, prepared))
    (predictor,) = train(options, problem, prepared.engine(options)).predictors
    losses = predictor.losses(prepared.test_x, prepared.test_y, prepared.test_s)
    return people_of(losses, *cells_of(prepared))


def cells_of(prepared: Prepared) -> tuple[Mask, Mask]:
    """Which test rows are on either side of the constraint."""
    sides = prepared.constraints[0].sides(len(prepared.schema.groups), len(prepared.schema.classes))
    a, b = (side[prepared.test_s, prepared.test_y] for side in sides)
    return a, b


def people_of(losses: Floats, a: Mask, b: Mask) -> Population:
    """The rows as a distribution."""
    return Population((losses[a], losses[b]), (float(a.mean()), float(b.mean())))


def local_estimates(rng: np.random.Generator, people: Population, rows: Ints) -> Floats:
    """D_i of clients with so many rows each."""
    p_a, p_b = people.share
    sizes = np.zeros((len(rows), 2), dtype=np.int64)
    while (again := (sizes == 0).any(axis=1)).any():
        sizes[again] = rng.multinomial(rows[again], [p_a, p_b, 1 - p_a - p_b])[:, :2]
    means = []
    for cell in (0, 1):
        values = rng.choice(people.losses[cell], size=int(sizes[:, cell].sum()))
        starts = np.concatenate([[0], np.cumsum(sizes[:, cell])[:-1]])
        means.append(np.add.reduceat(values, starts) / sizes[:, cell])
    return means[0] - means[1]


def variance_of(rng: np.random.Generator, people: Population, rows: int) -> float:
    """sigma_i^2 of a client with so many rows."""
    many = np.full(SAMPLE * ROWS // max(rows, ROWS), rows)
    return float(local_estimates(rng, people, many).var())


def rows_of(scenario: str, clients: int) -> Ints:
    """How many rows each client has."""
    if scenario != "unequal":
        return np.full(clients, ROWS)
    return np.where(np.arange(clients) % 4 == 0, 4 * ROWS, ROWS // 4)


def check(seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """For each scenario and N: the variance against sigma_avg^2/N, and how often bounds held."""
    found = {method: population(seed, method) for method in sorted(set(SCENARIOS.values()))}
    rows: list[dict[str, object]] = []
    for scenario, method in SCENARIOS.items():
        rows += _scenario(scenario, found[method], seed, draws)
    return pd.DataFrame(rows)


def _scenario(
    scenario: str, people: Population, seed: int, draws: int
) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(seed)
    sizes = np.unique(rows_of(scenario, max(CLIENTS)))
    sigma2 = {int(size): variance_of(rng, people, int(size)) for size in sizes}
    truth = abs(people.truth)
    for clients in CLIENTS:
        rows = rows_of(scenario, clients)
        local = local_estimates(rng, people, np.tile(rows, draws)).reshape(draws, clients)
        fed, one = local.mean(axis=1), local[:, int(np.argmax(rows))]
        predicted = float(np.mean([sigma2[int(size)] for size in rows])) / clients
        least = sigma2[int(rows.max())]
        for promised in PROMISED:
            r_fed, r_one = (float(np.sqrt(v / (1 - promised))) for v in (predicted, least))
            yield {
                "scenario": scenario,
                "clients": clients,
                "rows_per_client": float(rows.mean()),
                "draws": draws,
                "sigma_avg2_over_n": predicted,
                "sigma_min2": least,
                "variance": float(fed.var(ddof=1)),
                "promised": promised,
                "radius_fedfair": r_fed,
                "held_fedfair": float(np.mean(truth < np.abs(fed) + r_fed)),
                "within_fedfair": float(np.mean(np.abs(fed - people.truth) < r_fed)),
                "held_zero": float(truth < r_fed),
                "radius_lco": r_one,
                "held_lco": float(np.mean(truth < np.abs(one) + r_one)),
                "within_lco": float(np.mean(np.abs(one - people.truth) < r_one)),
                "true_difference": people.truth,
                "seed": seed,
                "fairsilo": __version__,
            }
