"""Local epochs: FedAvg as it is printed, a gradient where there is one step, the same anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.engine.epochs import fits
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.question.base import Work
from fairsilo.run import Options
from fairsilo.solver import Agp, Status
from tests.method.tasks import biased, posed
from tests.network.silos import TownTransport, make_town, simulate, train

SIZES = [40, 25, 60]


def printed(rounds: int, epochs: int, batch: int | None) -> Floats:
    """FedAvg, row by row: local steps on means over batches, then the weighted average."""
    federation, rate = biased(1, SIZES), Agp().alpha
    theta = np.zeros(4)
    for k in range(rounds):
        models = []
        for i, rows in enumerate(federation.silos()):
            x, y, at = federation.x[rows], federation.y[rows], theta.copy()
            rng = np.random.default_rng([0, 2, i, k])
            parts = -(-len(y) // (batch or len(y)))
            for _ in range(epochs):
                for part in np.array_split(rng.permutation(len(y)), parts):
                    grads = [
                        (1 / (1 + np.exp(-(at[0] + x[j] @ at[1:]))) - y[j]) * np.append(1.0, x[j])
                        for j in part
                    ]
                    at = at - rate * np.mean(grads, axis=0)
            models.append(at)
        theta = np.average(models, axis=0, weights=SIZES)
    return theta


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
@pytest.mark.parametrize(("epochs", "batch"), [(1, None), (3, None), (2, 8)])
def test_it_is_fedavg(engine: str, epochs: int, batch: int | None) -> None:
    work = Work(epochs, batch)
    problem, silos = posed(
        biased(1, SIZES), engine=engine, solver=Agp(), rounds=5, estimator="pooled", work=work
    )
    outcome = METHODS["fedavg"](problem, silos).outcome
    np.testing.assert_allclose(outcome.theta, printed(5, epochs, batch), atol=1e-12)


def test_one_large_client_among_small_ones_is_not_filled_up() -> None:
    """Tables as long as the longest would be mostly filling: the silos answer one by one."""
    uneven = biased(1, [2, 2, 2, 2, 2, 60])
    ended = []
    for engine in ("pooled", "clientwise"):
        problem, silos = posed(
            uneven, engine=engine, solver=Agp(), rounds=3, estimator="pooled", work=Work(2, 8)
        )
        ended.append(METHODS["fedavg"](problem, silos).outcome.theta)
    np.testing.assert_array_equal(ended[0], ended[1])
    assert not fits(uneven, np.ones(70))
    assert fits(biased(1, SIZES), np.ones(125))


def test_one_epoch_over_all_rows_is_the_papers_solver() -> None:
    for method in ("fedavg", "fedfair"):
        problem, silos = posed(
            biased(2, SIZES), engine="clientwise", solver=Agp(), rounds=60, epsilon=0.01
        )
        plain = METHODS[method](problem, silos).outcome
        same = METHODS[method](replace(problem, work=Work()), silos).outcome
        np.testing.assert_allclose(same.theta, plain.theta, atol=1e-10)
        np.testing.assert_allclose(same.history.mu, plain.history.mu, atol=1e-10)


def test_rest_beside_the_optimum_is_not_called_converged() -> None:
    """Four full epochs a round end where the clients' steps cancel; one ends at the optimum."""
    problem, silos = posed(
        biased(1, SIZES), engine="clientwise", solver=Agp(tolerance=0.02), rounds=600,
        estimator="pooled", work=Work(),
    )  # fmt: skip
    for work, status in ((Work(), Status.CONVERGED), (Work(4), Status.STALLED)):
        outcome = METHODS["fedavg"](replace(problem, work=work), silos).outcome
        assert outcome.status is status
        assert outcome.rounds < 600


@pytest.mark.slow
def test_local_epochs_go_further_in_as_many_rounds_and_keep_the_limit() -> None:
    problem, silos = posed(
        biased(3, SIZES), engine="clientwise", solver=Agp(), rounds=400, epsilon=0.05,
        estimator="pooled",
    )  # fmt: skip
    one = METHODS["fedfair"](problem, silos).outcome
    five = METHODS["fedfair"](replace(problem, work=Work(5, 16)), silos).outcome
    assert float(five.history.loss[20]) < float(one.history.loss[20]) - 0.01
    assert abs(float(five.last.d[0])) < 0.1


def test_a_network_gives_the_simulations_model(tmp_path: Path) -> None:
    town = make_town(
        tmp_path / "town", method="fedfair", local_epochs=2, batch=32, rounds=6,
        secure_aggregation=False,
    )  # fmt: skip
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert run.metrics["solver"] == "agp"
    np.testing.assert_allclose(
        run.trained.outcome.theta, other.trained.outcome.theta, rtol=0, atol=1e-9
    )
    assert simulate(town, tmp_path, engine="pooled").trained.outcome.theta == pytest.approx(
        other.trained.outcome.theta, abs=1e-9
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"local_epochs": 0}, "`local_epochs` is 0"),
        ({"batch": 0}, "`batch` is 0"),
        ({"local_epochs": 2, "method": "lco"}, "are for fedfair and fedavg and not for lco"),
        ({"batch": 8, "solver": "newton"}, "are for `solver` agp and not for newton"),
        ({"local_epochs": 2, "target_deo": 0.1}, "give `epsilon` instead of `target_deo`"),
        ({"local_epochs": 2, "dp_epsilon": 4.0}, "have no differential privacy"),
    ],
)
def test_what_does_not_go_with_local_epochs(more: dict[str, Any], words: str) -> None:
    with pytest.raises(FairSiloError, match=words):
        Options(data="adult", **more)
