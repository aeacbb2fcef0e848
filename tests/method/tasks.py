"""Tasks with a signal and a bias, and a predictor whose scores are the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness import Dgeo, Estimator
from fairsilo.method import Task
from fairsilo.model import Model, logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.solver import Agp, Lbfgs, Newton

PAIR = Dgeo(0, 1, 1)


def biased(seed: int, sizes: list[int], features: int = 3, groups: int = 2) -> Federation:
    """Rows whose class depends on the features, and on the group through the last feature."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    s = rng.integers(0, groups, n)
    x = rng.normal(size=(n, features))
    x[:, -1] += s
    y = (x @ np.linspace(1, 1.5, features) - 1 + rng.logistic(size=n) > 0).astype(np.int64)
    return Federation.of(x, y, s, np.repeat(np.arange(len(sizes)), sizes), groups=groups, classes=2)


def task(
    federation: Federation,
    *,
    epsilon: float = 0.02,
    estimator: Estimator = "mean",
    model: Model | None = None,
    solver: Newton | Lbfgs | Agp | None = None,
    pairs: tuple[Dgeo, ...] = (PAIR,),
    engine: str = "pooled",
    rounds: int = 100,
) -> Task:
    """A task, by default with Newton and logistic regression."""
    model = model or logistic_regression(federation.x.shape[1], federation.classes)
    return Task(federation, model, pairs, epsilon, estimator, solver or Newton(), rounds, 0, engine)


@dataclass(frozen=True)
class Given:
    """A predictor for two classes; the first column is the probability of class 1."""

    def probabilities(self, x: Floats, s: Ints) -> Floats:
        return np.stack([1 - x[:, 0], x[:, 0]], axis=1)

    def labels(self, x: Floats, s: Ints, seed: int = 0) -> Ints:
        return (x[:, 0] > 0.5).astype(np.int64)

    def losses(self, x: Floats, y: Ints, s: Ints) -> Floats:
        loss: Floats = -np.log(np.where(y == 1, x[:, 0], 1 - x[:, 0]))
        return loss


def rows(*cells: tuple[int, int, float, int]) -> tuple[Floats, Ints, Ints]:
    """x, y, s from (group, class, probability of class 1, how many)."""
    table = [(p, y, s) for s, y, p, count in cells for _ in range(count)]
    p, y, s = (np.array(column) for column in zip(*table, strict=True))
    return p[:, None].astype(np.float64), y.astype(np.int64), s.astype(np.int64)
