"""Differential privacy with other notions and limits: the simulation, noise and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.data import build_labels
from tests.network.private import make, spent_by
from tests.network.silos import TownTransport, largest_gap, simulate, train

CASES: list[dict[str, Any]] = [
    {"notion": "equalized-odds"},
    {"table": {"groups": 3}, "epsilon": 0.5, "epsilons": (("g0:g1", 0.02), ("g2:g1", 0.03))},
    {"protected_class": "all", "solver": "agp", "rounds": 4},
    {"notion": "accuracy-parity", "table": {"groups": 3}, "against": "rest"},
    {"notion": "bounded-loss", "epsilon": 0.5},
    {"by": ("group", "region")},
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise depends on nothing but how many numbers are drawn, for silos as in simulation."""
    monkeypatch.setattr(
        "fairsilo.dp.noise.discrete_gaussian",
        lambda size, s, _: np.rint(s * np.cos(np.arange(size))),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("settings", CASES, ids=lambda s: "-".join(map(str, s.values())))
def test_with_the_same_noise_it_is_the_simulation(tmp_path: Path, settings: dict[str, Any]) -> None:
    secure = CASES.index(settings) % 2 == 0
    town = make(tmp_path / "town", rows=2400, secure_aggregation=secure, **settings)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert largest_gap(town, run, other) < 1e-9
    metrics, expected = run.metrics, other.metrics
    assert metrics["train"] == pytest.approx(expected["train"], abs=1e-9)
    assert metrics["dp"] == expected["dp"]
    assert metrics["reason"] == expected["reason"]
    assert metrics["rounds"] == expected["rounds"] == town.agreed.rounds
    for key in ("accuracy", "deo", "dgeo_pooled", "rows"):
        assert metrics["test"][key] == pytest.approx(expected["test"][key], abs=1e-9)
    for one, two in zip(metrics["constraints"], expected["constraints"], strict=True):
        assert one["epsilon"] == two["epsilon"]
        assert one["test"] == pytest.approx(two["test"], abs=1e-9)
    names = [release.name for release in spent_by(town)]
    counted = [(one["release"], one["times"]) for one in expected["dp"]["ledger"]]
    assert [(name, names.count(name)) for name, _ in counted] == counted
    # The noise was there: it is in the figures of the training rows.
    rows = town.table.query("part == 'train'")
    x, y = run.prepared.encoder.transform(rows), build_labels(rows, town.agreed.table)[0]
    exact = np.minimum(run.trained.predictors[0].losses(x, y, y), 4.0).mean()
    assert abs(metrics["train"]["loss"] - exact) > 1e-4


@pytest.mark.slow
@pytest.mark.usefixtures("silent")
def test_a_limit_of_a_single_pair_is_kept(tmp_path: Path) -> None:
    settings = {"table": {"groups": 3}, "rows": 2400, "rounds": 8, "epsilon": 1.0}
    pair = (("g0:g1", 0.005),)
    gaps = {}
    for name, epsilons in (("without", ()), ("with", pair)):
        town = make(tmp_path / name, epsilons=epsilons, **settings)
        run, _ = train(town, TownTransport(town), tmp_path / f"{name}-journal")
        assert [one["epsilon"] for one in run.metrics["constraints"]] == (
            [0.005, 1.0, 1.0] if epsilons else [1.0] * 3
        )
        gaps[name] = np.abs(np.asarray(run.trained.outcome.last.d))
    assert gaps["with"][0] < 0.01
    assert gaps["without"][0] > 0.05
