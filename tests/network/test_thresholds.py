"""Thresholds over silos: those of the simulation, from sums, and nobody else's questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.network.silo import _asked_for
from fairsilo.predictor.thresholds import Thresholds
from fairsilo.question import Evaluate
from tests.network.silos import TownTransport, make_town, simulate, train_with

CASES: list[dict[str, Any]] = [
    {"secure_aggregation": True, "target_deo": 0.02},
    {"notion": "demographic-parity", "target_deo": 0.05, "after": "fedfair"},
]


@pytest.mark.parametrize("settings", CASES, ids=["masks", "parity-after-fedfair"])
def test_a_network_has_the_simulations_thresholds(tmp_path: Path, settings: dict[str, Any]) -> None:
    settings = {"secure_aggregation": False, **settings}
    town = make_town(tmp_path / "town", method="thresholds", **settings)
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    (mine,), (theirs,) = run.trained.predictors, other.trained.predictors
    assert isinstance(mine, Thresholds)
    assert isinstance(theirs, Thresholds)
    np.testing.assert_array_equal(mine.cuts, theirs.cuts)
    assert len(set(mine.cuts.tolist())) > 1
    assert run.metrics["cuts"] == other.metrics["cuts"]
    for part in ("train", "test"):
        for key in ("accuracy", "deo", "rate_gap"):
            assert run.metrics[part][key] == pytest.approx(other.metrics[part][key], abs=1e-12)
    assert len(engine.entries) <= town.agreed.questions


def test_other_methods_have_no_cuts_by_group(tmp_path: Path) -> None:
    question = Evaluate(np.zeros(3), cuts=np.array([0.3, 0.5]))
    for method, answered in (("fedfair", False), ("thresholds", True)):
        agreed = make_town(tmp_path / method, method=method).agreed
        assert _asked_for(agreed, question) is answered
