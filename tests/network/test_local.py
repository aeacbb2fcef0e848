"""LCO over silos has the simulation's optimum, although no D_i and no multiplier is sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairsilo.fairness import Dgeo
from fairsilo.fairness.weigh import totals_of
from fairsilo.model import MODELS
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.partition.federation import Federation
from fairsilo.question import Local, Part, Problem, Silo
from fairsilo.solver import Newton, Status
from tests.network.silos import TownTransport, largest_gap, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_reaches_the_optimum_of_the_simulation(tmp_path: Path, secure: bool) -> None:
    """That of one solve over all silos' constraints, and that of the same method in one process."""
    town = make_town(tmp_path / "town", method="lco", secure_aggregation=secure)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    whole = simulate(town, tmp_path, engine="pooled")
    assert whole.metrics["converged"]
    outcome = run.trained.outcome
    assert outcome.status is Status.CONVERGED
    assert largest_gap(town, run, whole) < 1e-4
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6
    assert outcome.last.loss == pytest.approx(whole.metrics["train"]["loss"], abs=1e-6)
    assert float(outcome.last.violation) <= 1e-6
    for silo in whole.metrics["by_client"]:
        assert silo["dgeo"] <= town.agreed.epsilon + 1e-5
    assert bool(run.metrics["by_client"]) is not secure
    for silo in run.metrics["by_client"]:
        assert silo["dgeo"] <= town.agreed.epsilon + 1e-5


class KilledError(BaseException):
    """Stands for kill -9."""


@pytest.mark.slow
def test_goes_on_after_a_loss_and_after_a_crash(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="lco", secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 14:
            raise KilledError
        return Fault("is gone") if name == "silo2" and exchange == 6 else None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, change), tmp_path / "journal")
    post = TownTransport(town, absent=("silo2",), run="2")
    run, _ = train(town, post, tmp_path / "journal", resume=True)
    assert run.trained.outcome.status is Status.CONVERGED
    whole = simulate(town, tmp_path, without=("silo2",), engine="pooled")
    assert largest_gap(town, run, whole) < 1e-4


def test_the_augmented_lagrangian_has_the_derivatives_it_says() -> None:
    rng = np.random.default_rng(0)
    n, features = 60, 3
    x, y, s = rng.normal(size=(n, features)), rng.integers(0, 2, n), rng.integers(0, 3, n)
    pairs = (Dgeo(0, 1, 1), Dgeo(1, 2, 0))
    model = MODELS["lr"](features, 2)
    problem = Problem(model, pairs, 0.01, "pooled", Newton(), 1, 0, groups=3)
    theta = rng.normal(size=model.size)
    multipliers = np.abs(rng.normal(size=(2, 2)))
    rows = Federation.of(x, y, s, np.zeros(n, np.int64), groups=3, classes=2)
    totals = totals_of(rows, pairs).to_vector()
    part = Part(y, s, x)

    def at(point: np.ndarray) -> np.ndarray:
        silo = Silo(part, part, memory={"3": [5.0, *multipliers.ravel()]})
        return Local(point, 5.0, 3, totals).answer(problem, silo)

    vector, size = at(theta), theta.size
    assert vector.shape == (Local(theta, 5.0, 3, totals).length(problem),)
    hess = np.zeros((size, size))
    hess[np.triu_indices(size)] = vector[1 + size : -2]
    hess = hess + np.triu(hess, 1).T
    for i in range(size):
        step = np.zeros(size)
        step[i] = 1e-6
        up, down = at(theta + step), at(theta - step)
        assert (up[0] - down[0]) / 2e-6 == pytest.approx(vector[1 + i], abs=1e-7)
        np.testing.assert_allclose((up - down)[1 : 1 + size] / 2e-6, hess[i], atol=1e-6)
