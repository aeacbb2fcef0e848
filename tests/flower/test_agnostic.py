"""AF over silos against the simulation's AF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fairsilo.flower import agnostic_silo
from fairsilo.flower.agnostic_session import AF_ROUNDS
from fairsilo.flower.agnostic_silo import kernels_of
from fairsilo.flower.post import Fault
from fairsilo.flower.wire import Record
from fairsilo.method import adversary
from fairsilo.method.agnostic import af
from fairsilo.run.prepare import prepare
from fairsilo.run.train import plan
from tests.flower.silos import TownPost, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_equals_the_simulation(tmp_path: Path, secure: bool) -> None:
    town = make_town(
        tmp_path / "town", method="af", rounds=32, epsilon=0.02, secure_aggregation=secure
    )
    finished, events = train(town, TownPost(town), tmp_path / "journal")
    run = simulate(town, tmp_path)
    prepared = prepare(run.options)
    expected = af(plan(run.options, prepared), outer=3)
    assert finished.outcome.rounds == expected.outcome.rounds == 32
    np.testing.assert_allclose(finished.outcome.theta, expected.outcome.theta, atol=1e-9)
    np.testing.assert_allclose(finished.outcome.history.d, expected.outcome.history.d, atol=1e-9)
    assert sum(event["event"] == "round" for event in events) == 32


@pytest.mark.slow
def test_the_whole_schedule_is_that_of_the_simulation(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="af", secure_aggregation=False, rows=400)
    run = simulate(town, tmp_path)
    assert run.metrics["rounds"] == AF_ROUNDS
    assert (agnostic_silo.POINTS, agnostic_silo.SIGMA) == (adversary.POINTS, adversary.SIGMA)


def test_a_lost_silo_is_left_out(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="af", rounds=10, secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == "silo3" and exchange >= 6 else None

    finished, _ = train(town, TownPost(town, change), tmp_path / "journal")
    assert finished.silos == ("silo0", "silo1", "silo2")
    assert finished.outcome.rounds == 10
    assert "silo3 is gone" in finished.notes[0]


def test_kernels() -> None:
    rng = np.random.default_rng(0)
    x, points = rng.normal(size=(9, 5)), rng.normal(size=(30, 5))
    expected = np.exp(-cdist(x, points, "sqeuclidean") / 8)
    np.testing.assert_allclose(kernels_of(x, points), expected, rtol=1e-12)
