"""FedAvg against scikit-learn, LCO against FedFair, and LCO where it breaks down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairsilo.method.constrained import fedavg, fedfair, lco, solve_many, weighted_rows
from fairsilo.method.separate import st_many
from fairsilo.partition.federation import Federation
from fairsilo.solver import Status
from tests.method.tasks import biased, task


def test_fedavg_is_unregularised_logistic_regression_on_the_pooled_rows() -> None:
    federation = biased(0, [200, 120, 90], features=4)
    ours = fedavg(task(federation))
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    reference.fit(federation.x, federation.y)
    probabilities = reference.predict_proba(federation.x)
    got = ours.predictors[0].probabilities(federation.x, federation.s)
    np.testing.assert_allclose(got, probabilities, atol=1e-5)
    loss = -np.log(probabilities[np.arange(federation.rows), federation.y]).mean()
    assert float(ours.outcome.last.loss) == pytest.approx(loss, abs=1e-9)


@pytest.mark.slow
def test_lco_with_one_client_is_fedfair_with_one_client() -> None:
    alone = task(biased(1, [120]), epsilon=0.01)
    one, other = lco(alone), fedfair(alone)
    np.testing.assert_allclose(one.outcome.theta, other.outcome.theta, atol=1e-9)
    assert one.outcome.rounds == other.outcome.rounds


@pytest.mark.slow
def test_lco_meets_every_clients_constraint() -> None:
    federation = biased(2, [150, 200, 120])
    trained = lco(task(federation, epsilon=0.05))
    assert trained.outcome.status is Status.CONVERGED
    for i in range(3):
        own = federation.only(i)
        losses = trained.predictors[0].losses(own.x, own.y, own.s)
        gap = (
            losses[(own.s == 0) & (own.y == 1)].mean() - losses[(own.s == 1) & (own.y == 1)].mean()
        )
        assert abs(gap) <= 0.05 + 1e-5


@pytest.mark.slow
def test_lco_at_small_epsilon_collapses_instead_of_becoming_infeasible() -> None:
    """More constraints than parameters leave nothing but the constant predictor."""
    federation = biased(3, [14, 40, 9, 25, 33, 12, 18, 22, 16, 30])
    tight = task(federation, epsilon=1e-6, rounds=300)
    trained = lco(tight)
    last = trained.outcome.last
    labels = trained.predictors[0].labels(federation.x, federation.s, 0)
    rate = federation.y.mean()
    constant_loss = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert len(np.unique(labels)) == 1
    assert float(last.violation) < 1e-4
    assert float(last.loss) == pytest.approx(constant_loss, abs=1e-3)
    assert trained.outcome.status is Status.CONVERGED
    free = lco(replace(tight, epsilon=10.0))
    assert float(free.outcome.last.loss) < constant_loss - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("many", [solve_many, st_many])
def test_tables_of_different_length_share_a_program(many: Callable[..., Any]) -> None:
    """Shorter tables are filled up with rows of weight zero: each gets what it gets alone."""
    tasks = [task(biased(seed, [90 + seed, 80]), epsilon=0.05) for seed in (0, 7)]
    together = many(tasks, [0.02, 0.1])
    for one, solved in zip(tasks, together, strict=True):
        (alone,) = many([one], [0.02, 0.1])
        for a, b in zip(solved, alone, strict=True):
            np.testing.assert_allclose(a.outcome.theta, b.outcome.theta, atol=1e-7)


@pytest.mark.slow
def test_lco_with_more_clients_than_parameters() -> None:
    """Twelve constraints, four parameters: the dual of every round is solved to the end."""
    trained = lco(task(biased(5, [40] * 12), epsilon=0.02))
    assert trained.outcome.status is Status.CONVERGED
    assert trained.outcome.rounds <= 15


def test_clients_that_leave_small_cells_out_are_counted() -> None:
    """Four clients of which one has three rows of (0, 1): only their number is told."""
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    client = np.repeat(np.arange(4), 100)
    few = np.flatnonzero((client == 2) & (y == 1) & (s == 0))[3:]
    s[few] = 1
    rows = Federation.of(rng.normal(size=(400, 3)), y, s, client, groups=2, classes=2)
    asked = replace(task(rows), min_cell=5)
    (note,) = fedfair(asked).notes
    assert note.startswith("1 of 4 clients have fewer than 5 rows in one of the constrained cells")
    assert not fedfair(replace(asked, min_cell=3)).notes
    small = (rows.y == 1) & (rows.s == 0) & (np.repeat(np.arange(4), 100) == 2)
    assert small.sum() == 3
    assert not weighted_rows(asked)[1].v[0, small].any()
