"""AF over silos against the simulation's AF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from fairsilo.fairness import Dgeo
from fairsilo.method.af import ROUNDS
from fairsilo.model import MODELS
from fairsilo.network.masked import sendable
from fairsilo.network.settings import read_settings
from fairsilo.network.silo import answer
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record, Refusal
from fairsilo.question import Part, Problem, Silo
from fairsilo.question.agnostic import POINTS, Attack, Spread, seen_columns
from fairsilo.solver import Newton, Status
from tests.network.silos import TownTransport, make_town, simulate, train
from tests.network.test_silo import set_line


@pytest.mark.parametrize("secure", [False, True])
def test_equals_the_simulation(tmp_path: Path, secure: bool) -> None:
    town = make_town(
        tmp_path / "town", method="af", rounds=ROUNDS, epsilon=0.1, secure_aggregation=secure
    )
    run, events = train(town, TownTransport(town), tmp_path / "journal")
    outcome, expected = run.trained.outcome, simulate(town, tmp_path).trained.outcome
    assert outcome.status is expected.status is Status.CONVERGED
    assert abs(outcome.last.d[0]) == pytest.approx(0.1, abs=1e-4)
    # Sums are rounded, and the optimum is known to the solver's tolerance.
    np.testing.assert_allclose(outcome.theta, expected.theta, atol=1e-3)
    assert float(outcome.last.loss) == pytest.approx(float(expected.last.loss), abs=1e-7)
    assert sum(event["event"] == "round" for event in events) == outcome.rounds


@pytest.mark.parametrize("lost_at", [3, 6], ids=["spread", "attack"])
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


@pytest.mark.parametrize("pooled", [False, True])
def test_a_server_that_pools_groups_is_not_told_that_they_are_small(
    pooled: bool, tmp_path: Path
) -> None:
    """Which ones are pooled is its word: of counts of its choice only the sum may tell."""
    more: dict[str, Any] = {"by": ("group", "region"), "groups": None} if pooled else {}
    town = make_town(tmp_path, silos=3, rows=240, method="af", **more)
    set_line(town, "minimum_cell = 200")
    settings = read_settings(town.settings("silo0"))
    ask = Ask(
        Spread(), 1, town.agreed.fingerprint, "af", encoded=True, training="one",
        scalings=np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers)),
        cells=np.repeat([900.0, 1.0, 1.0, 1.0], 2) if pooled else np.zeros(0),
    )  # fmt: skip
    if not pooled:
        with pytest.raises(Refusal, match="fewer than 200 training rows of a group"):
            answer(settings, town.agreed, ask, {})
        return
    told, spoiled = sendable(answer(settings, town.agreed, ask, {}))
    assert spoiled
    assert not told.any()


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
