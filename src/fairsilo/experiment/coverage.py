"""Coverage of the audit's intervals, on simulated federations whose true gaps are known.

A row of group g has the score z ~ Normal(mu_g, sd_g); it is predicted right if z > 0, and its loss
is log(1 + e^-z), as for logistic regression. So the rate is Phi(mu/sd), and the mean loss is an
integral, computed by Gauss-Hermite quadrature. `shift` moves the mu of every silo by a random
amount: then `pooled` estimates the mean over rows, and `mean` that over silos. Intervals with an
estimated variance are measured here with fewer rows, too, than an audit gives them for.

    python -m fairsilo.experiment.coverage
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from fairsilo.arrays import Floats
from fairsilo.evaluate.audit import Auditor, Found
from fairsilo.evaluate.certificate import KINDS, Names, certify
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Dgeo

PAIRS = (Dgeo(0, 1, 1),)
NAMES = Names(("a", "b"), ("other", "protected"))
NODES = 60


@dataclass(frozen=True)
class Federation:
    """The silos' evidence, and the true gaps of the population they are drawn from."""

    evidence: Evidence
    rates: Floats
    """The pooled rate of each group."""
    truth: dict[str, float]
    """The true gaps, by quantity and estimator."""


def simulate(
    rng: np.random.Generator, least: int, most: int, silos: int, shift: float
) -> Federation:
    """Draw a population, one to `silos` silos and the `least` to `most` rows of each cell."""
    count = int(rng.integers(1, silos + 1))
    sd = rng.uniform(0.5, 2.0, (1, 2))
    mu = sd * ndtri(rng.uniform(0.1, 0.95, (1, 2))) + shift * rng.normal(size=(count, 2))
    sizes = rng.integers(least, most + 1, (count, 2))
    rate, loss = ndtr(mu / sd), _mean_loss(mu, np.broadcast_to(sd, mu.shape))
    parts = []
    for i in range(count):
        cells = [rng.normal(mu[i, g], sd[0, g], sizes[i, g]) for g in (0, 1)]
        tally = Tally.of(
            np.ones(sizes[i].sum(), np.int64),
            np.repeat(np.arange(2), sizes[i]),
            (np.concatenate(cells) > 0).astype(np.int64),
            np.logaddexp(0.0, -np.concatenate(cells)),
            groups=2,
            classes=2,
        )
        parts.append(Evidence.of_silo(tally, PAIRS))
    share = sizes / sizes.sum(axis=0)
    pooled = (share * rate).sum(axis=0)
    truth = {
        "rate pooled": float(pooled[0] - pooled[1]),
        "rate mean": float(np.mean(rate[:, 0] - rate[:, 1])),
        "loss pooled": float((share[:, 0] * loss[:, 0]).sum() - (share[:, 1] * loss[:, 1]).sum()),
        "loss mean": float(np.mean(loss[:, 0] - loss[:, 1])),
    }
    return Federation(reduce(add, parts), pooled, truth)


def coverage(
    federations: int = 1_000,
    *,
    least: int = 30,
    most: int = 150,
    silos: int = 6,
    shift: float = 0.0,
    seed: int = 0,
    level: float = 0.95,
) -> pd.DataFrame:
    """For every kind of interval: how often it contains the true gap, and its mean width."""
    rng = np.random.default_rng(seed)
    held: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    for k in range(federations):
        one = simulate(rng, least, most, silos, shift)
        found = Auditor(PAIRS, NAMES, level=level, seed=k, fewest=2).findings(one.evidence)
        for name, (span, truth) in _spans(found, one).items():
            held.setdefault(name, []).append(span[0] <= truth <= span[1])
            widths.setdefault(name, []).append(span[1] - span[0])
        found_here = certify(one.evidence, PAIRS, NAMES, None, by_silo=False, level=level, fewest=2)
        for name in KINDS:
            bound = found_here["bounds"][name]
            key = f"certificate, {name}"
            held.setdefault(key, []).append(abs(one.truth["loss pooled"]) < bound)
            widths.setdefault(key, []).append(bound - found["dgeo"]["pooled"]["value"])
    return pd.DataFrame(
        {
            "held": {name: float(np.mean(values)) for name, values in held.items()},
            "width": {name: float(np.mean(values)) for name, values in widths.items()},
        }
    )


def _spans(found: Found, one: Federation) -> dict[str, tuple[list[float], float]]:
    """Every interval of an audit, with the true value that it estimates."""
    cell = next(c for c in found["cells"] if c["group"] == "a" and c["class"] == "protected")
    [pair] = found["pairs"]
    rate, loss = pair["rate_gap"], pair["loss_gap"]
    return {
        "rate, Wilson": (cell["wilson"], float(one.rates[0])),
        "rate, bootstrap": (cell["bootstrap"], float(one.rates[0])),
        "rate gap, Newcombe": (rate["pooled"]["newcombe"], one.truth["rate pooled"]),
        "rate gap, bootstrap": (rate["pooled"]["bootstrap"], one.truth["rate pooled"]),
        "rate gap, mean, normal": (rate["mean"]["normal"], one.truth["rate mean"]),
        "loss gap, normal": (loss["pooled"]["normal"], one.truth["loss pooled"]),
        "loss gap, Chebyshev": (loss["pooled"]["chebyshev"], one.truth["loss pooled"]),
        "loss gap, mean, normal": (loss["mean"]["normal"], one.truth["loss mean"]),
        "loss gap, mean, Chebyshev": (loss["mean"]["chebyshev"], one.truth["loss mean"]),
    }


def _mean_loss(mu: Floats, sd: Floats) -> Floats:
    """E log(1 + e^-z) of z ~ Normal(mu, sd)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    z = mu[..., None] + sd[..., None] * nodes
    mean: Floats = (np.logaddexp(0.0, -z) * weights).sum(axis=-1) / weights.sum()
    return mean


if __name__ == "__main__":
    pd.set_option("display.precision", 3)
    print("every cell of every silo has 30 to 150 rows, 1 to 6 silos of one population")
    print(coverage())
    print("\none silo, every cell has 30 rows")
    print(coverage(least=30, most=30, silos=1))
    print("\nas the first, but every silo has a population of its own")
    print(coverage(shift=0.7))
