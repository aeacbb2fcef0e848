"""AF over silos against the simulation's AF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fairsilo.fairness import Dgeo
from fairsilo.method.af import ROUNDS
from fairsilo.model import MODELS
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.question import Part, Problem, Silo
from fairsilo.question.agnostic import POINTS, SIGMA, Attack, seen_columns
from fairsilo.solver import Newton
from tests.network.silos import TownTransport, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_equals_the_simulation(tmp_path: Path, secure: bool) -> None:
    town = make_town(
        tmp_path / "town", method="af", rounds=32, epsilon=0.02, secure_aggregation=secure
    )
    run, events = train(town, TownTransport(town), tmp_path / "journal")
    outcome, expected = run.trained.outcome, simulate(town, tmp_path).trained.outcome
    assert outcome.rounds == expected.rounds == 32
    np.testing.assert_allclose(outcome.theta, expected.theta, atol=1e-9)
    np.testing.assert_allclose(outcome.history.d, expected.history.d, atol=1e-9)
    assert sum(event["event"] == "round" for event in events) == 32


@pytest.mark.slow
def test_the_whole_schedule_is_that_of_the_simulation(tmp_path: Path) -> None:
    town = make_town(
        tmp_path / "town", method="af", secure_aggregation=False, rows=400, rounds=ROUNDS
    )
    run = simulate(town, tmp_path, rounds=None)
    assert run.metrics["rounds"] == ROUNDS == 219
    assert (POINTS, SIGMA) == (30, 2.0)
    assert train(town, TownTransport(town), tmp_path / "journal")[0].metrics["rounds"] == ROUNDS


@pytest.mark.parametrize("lost_at", [3, 6], ids=["spread", "tilt"])
def test_a_lost_silo_is_left_out(tmp_path: Path, lost_at: int) -> None:
    """The reference points are of four silos, or of three where they were asked for later."""
    town = make_town(tmp_path / "town", method="af", rounds=10, secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == "silo3" and exchange >= lost_at else None

    run, _ = train(town, TownTransport(town, change), tmp_path / "journal")
    assert run.client_names == ("silo0", "silo1", "silo2")
    assert run.trained.outcome.rounds == 10
    assert "silo3 is gone" in run.metrics["notes"][0]
    rows = town.table.query("client != 'silo3' and part == 'train'")
    assert run.metrics["train"]["rows"] == len(rows)


def test_kernels() -> None:
    rng = np.random.default_rng(0)
    x, points = rng.normal(size=(9, 5)), rng.normal(size=(POINTS, 4))
    y, s = rng.integers(0, 2, 9), rng.integers(0, 2, 9)
    problem = Problem(
        MODELS["lr"](5, 2), (Dgeo(0, 1, 1),), 0.05, "pooled", Newton(), 1, 0, hidden=(2,)
    )
    assert list(seen_columns(problem)) == [0, 1, 3, 4]
    expected = np.exp(-cdist(x[:, [0, 1, 3, 4]], points, "sqeuclidean") / 8)
    part = Part(y, s, x)
    attack = Attack(np.zeros(6), points.reshape(-1))
    sums = attack.read(problem, attack.answer(problem, Silo(part, part)))
    np.testing.assert_allclose(sums.kernel, expected.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sums.group_kernel, (s == 0) @ expected, rtol=1e-12)
    np.testing.assert_allclose(sums.loss_kernel, np.log(2) * expected.sum(axis=0), rtol=1e-12)
