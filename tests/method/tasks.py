"""Problems with a signal and a bias, and a predictor whose scores are the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.engine import Clientwise, Pooled, silos_of
from fairsilo.fairness import Constraint, Dgeo, Estimator
from fairsilo.model import Model, logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.predictor import Predictor
from fairsilo.predictor.hits import Hits
from fairsilo.question import Problem
from fairsilo.solver import Newton, Solver

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


def engine_of(federation: Federation, name: str = "pooled", min_cell: int = 0) -> Clientwise:
    """An engine of a simulation by its name."""
    if name == "pooled":
        return Pooled(federation, min_cell)
    return Clientwise(silos_of(federation, min_cell=min_cell))


def problem_of(
    federation: Federation,
    *,
    epsilon: float | tuple[float, ...] = 0.02,
    estimator: Estimator = "mean",
    model: Model | None = None,
    solver: Solver | None = None,
    pairs: tuple[Constraint, ...] = (PAIR,),
    rounds: int = 100,
    **more: Any,
) -> Problem:
    """All but the rows, by default with Newton and logistic regression."""
    return Problem(
        model=model or logistic_regression(federation.x.shape[1], federation.classes),
        constraints=pairs,
        epsilon=epsilon,
        estimator=estimator,
        solver=solver or Newton(),
        rounds=rounds,
        seed=0,
        groups=federation.groups,
        **more,
    )


def posed(
    federation: Federation, *, engine: str = "pooled", min_cell: int = 0, **more: Any
) -> tuple[Problem, Clientwise]:
    """What a method is called with: a problem (see `problem_of`) and an engine with the rows."""
    return problem_of(federation, **more), engine_of(federation, engine, min_cell)


def hits_of(base: Predictor, pair: Dgeo, x: Floats, y: Ints, s: Ints) -> Hits:
    """What a repair of the base predictor needs of these rows."""
    return Hits.of(pair, y, s, base.labels(x, s, 0), base.probabilities(x, s)[:, pair.c])


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
