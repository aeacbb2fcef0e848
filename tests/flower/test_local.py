"""LCO over silos: the optimum of the simulation's LCO, though no D_i and no multiplier travels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairsilo.flower.local_silo import local_answer, local_length
from fairsilo.flower.post import Fault
from fairsilo.flower.wire import Record
from fairsilo.solver import Status
from tests.flower.silos import TownPost, largest_gap, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_reaches_the_optimum_of_the_simulation(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path / "town", method="lco", secure_aggregation=secure)
    finished, _ = train(town, TownPost(town), tmp_path / "journal")
    run = simulate(town, tmp_path)
    assert run.metrics["converged"]
    assert finished.outcome.status is Status.CONVERGED
    assert largest_gap(town, finished, run) < 1e-4
    assert finished.outcome.last.loss == pytest.approx(run.metrics["train"]["loss"], abs=1e-6)
    assert float(finished.outcome.last.violation) <= 1e-6
    for silo in run.metrics["by_client"]:
        assert silo["dgeo"] <= town.charter.epsilon + 1e-5


@pytest.mark.slow
def test_goes_on_after_a_loss_and_after_a_crash(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="lco", secure_aggregation=False)

    class KilledError(BaseException):
        pass

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 14:
            raise KilledError
        return Fault("is gone") if name == "silo2" and exchange == 6 else None

    with pytest.raises(KilledError):
        train(town, TownPost(town, change), tmp_path / "journal")
    post = TownPost(town, absent=("silo2",), run="2")
    finished, _ = train(town, post, tmp_path / "journal", resume=True)
    assert finished.outcome.status is Status.CONVERGED
    run = simulate(town, tmp_path, without=("silo2",))
    assert largest_gap(town, finished, run) < 1e-4


def test_the_augmented_lagrangian_has_the_derivatives_it_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, features = 60, 3
    x, y = rng.normal(size=(n, features)), rng.integers(0, 2, n)
    w, v = np.full(n, 1 / n), rng.normal(size=(2, n)) / n
    theta = rng.normal(size=features + 1)
    multipliers = np.abs(rng.normal(size=(2, 2)))

    def at(point: np.ndarray) -> np.ndarray:
        return local_answer(x, y, w, v, point, 0.01, 5.0, multipliers, 2)[0]

    vector, size = at(theta), theta.size
    assert vector.shape == (local_length(size),)
    hess = np.zeros((size, size))
    hess[np.triu_indices(size)] = vector[1 + size : -2]
    hess = hess + np.triu(hess, 1).T
    for i in range(size):
        step = np.zeros(size)
        step[i] = 1e-6
        up, down = at(theta + step), at(theta - step)
        assert (up[0] - down[0]) / 2e-6 == pytest.approx(vector[1 + i], abs=1e-7)
        np.testing.assert_allclose((up - down)[1 : 1 + size] / 2e-6, hess[i], atol=1e-6)
