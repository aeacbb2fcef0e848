"""FedAvg against scikit-learn, LCO against FedFair, and LCO where it breaks down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairsilo.engine import Pooled, solve_many
from fairsilo.method.fedavg import fedavg
from fairsilo.method.fedfair import fedfair
from fairsilo.method.lco import lco
from fairsilo.method.st import train_many
from fairsilo.partition.federation import Federation
from fairsilo.solver import Agp, Status
from tests.engine.sums import weighted_rows
from tests.method.tasks import PAIR, biased, posed, problem_of
from tests.oracle import Client, federated_gradient


def test_fedavg_is_unregularised_logistic_regression_on_the_pooled_rows() -> None:
    federation = biased(0, [200, 120, 90], features=4)
    ours = fedavg(*posed(federation))
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    reference.fit(federation.x, federation.y)
    probabilities = reference.predict_proba(federation.x)
    got = ours.predictors[0].probabilities(federation.x, federation.s)
    np.testing.assert_allclose(got, probabilities, atol=1e-5)
    loss = -np.log(probabilities[np.arange(federation.rows), federation.y]).mean()
    assert float(ours.outcome.last.loss) == pytest.approx(loss, abs=1e-9)


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
def test_fedavg_by_the_papers_solver_takes_the_exact_federated_gradient(engine: str) -> None:
    federation, rate = biased(3, [30, 4, 20]), 0.05
    ones = np.hstack([np.ones((federation.rows, 1)), federation.x])
    clients = [
        Client(ones[own], federation.y[own], federation.s[own]) for own in federation.silos()
    ]
    theta = np.zeros(4)
    for _ in range(20):
        theta = theta - rate * federated_gradient(theta, clients)
    solver = Agp(alpha=rate)
    found = fedavg(*posed(federation, solver=solver, rounds=20, engine=engine)).outcome
    # `pooled` runs AGP in float32.
    np.testing.assert_allclose(found.theta, theta, atol=1e-6 if engine == "pooled" else 1e-12)


def test_lco_with_one_client_is_fedfair_with_one_client() -> None:
    alone = posed(biased(1, [120]), epsilon=0.01)
    one, other = lco(*alone), fedfair(*alone)
    np.testing.assert_allclose(one.outcome.theta, other.outcome.theta, atol=1e-9)
    assert one.outcome.rounds == other.outcome.rounds


def test_lco_meets_every_clients_constraint() -> None:
    federation = biased(2, [150, 200, 120])
    trained = lco(*posed(federation, epsilon=0.05))
    assert trained.outcome.status is Status.CONVERGED
    for i in range(3):
        own = federation.only(i)
        losses = trained.predictors[0].losses(own.x, own.y, own.s)
        gap = (
            losses[(own.s == 0) & (own.y == 1)].mean() - losses[(own.s == 1) & (own.y == 1)].mean()
        )
        assert abs(gap) <= 0.05 + 1e-5


def test_lco_at_small_epsilon_collapses_instead_of_becoming_infeasible() -> None:
    """More constraints than parameters leave nothing but the constant predictor."""
    federation = biased(3, [14, 40, 9, 25, 33, 12, 18, 22, 16, 30])
    tight, engine = posed(federation, epsilon=1e-6, rounds=300)
    trained = lco(tight, engine)
    last = trained.outcome.last
    labels = trained.predictors[0].labels(federation.x, federation.s, 0)
    rate = federation.y.mean()
    constant_loss = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert len(np.unique(labels)) == 1
    assert float(last.violation) < 1e-4
    assert float(last.loss) == pytest.approx(constant_loss, abs=1e-3)
    assert trained.outcome.status is Status.CONVERGED
    free = lco(replace(tight, epsilon=10.0), engine)
    assert float(free.outcome.last.loss) < constant_loss - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("many", [solve_many, train_many])
def test_tables_of_different_length_share_a_program(many: Callable[..., Any]) -> None:
    """Shorter tables are padded with rows of weight zero, which changes no result."""
    tables = [biased(seed, [90 + seed, 80]) for seed in (0, 7)]
    problems = [problem_of(table, epsilon=0.05) for table in tables]
    engines = [Pooled(table) for table in tables]
    together = many(problems, engines, [0.02, 0.1])
    for problem, engine, solved in zip(problems, engines, together, strict=True):
        (alone,) = many([problem], [engine], [0.02, 0.1])
        for a, b in zip(solved, alone, strict=True):
            one, other = (getattr(found, "outcome", found) for found in (a, b))
            np.testing.assert_allclose(one.theta, other.theta, atol=1e-7)


def test_lco_with_more_clients_than_parameters() -> None:
    """Twelve constraints, four parameters: the dual of every round is solved exactly."""
    trained = lco(*posed(biased(5, [40] * 12), epsilon=0.02))
    assert trained.outcome.status is Status.CONVERGED
    assert trained.outcome.rounds <= 15


def test_clients_that_leave_small_cells_out_are_counted() -> None:
    """One of four clients has only three rows of (0, 1): only the number of such clients shows."""
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    client = np.repeat(np.arange(4), 100)
    few = np.flatnonzero((client == 2) & (y == 1) & (s == 0))[3:]
    s[few] = 1
    rows = Federation.of(rng.normal(size=(400, 3)), y, s, client, groups=2, classes=2)
    (note,) = fedfair(*posed(rows, min_cell=5)).notes
    assert note.startswith("1 of 4 clients have fewer than 5 rows in one of the constrained cells")
    assert not fedfair(*posed(rows, min_cell=3)).notes
    small = (rows.y == 1) & (rows.s == 0) & (np.repeat(np.arange(4), 100) == 2)
    assert small.sum() == 3
    assert not weighted_rows(rows, [PAIR], "mean", 5).v[0, small].any()
