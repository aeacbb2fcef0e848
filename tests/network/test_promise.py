"""Targets in rates over a network: the simulation's model, promised or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.network.silos import TownTransport, largest_gap, make_town, simulate, train_with


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"target_deo": 0.25, "target_confidence": 0.6},
        {"target_deo": 0.25, "target_confidence": 0.6, "model": "additive", "pairs": 1},
        {"target_deo": 0.03, "notion": "demographic-parity"},
    ],
    ids=["promised", "promised additive", "demographic parity"],
)
def test_the_target_is_met_as_in_the_simulation(tmp_path: Path, settings: dict[str, Any]) -> None:
    town = make_town(tmp_path, 3, 1200, **settings)
    run, _, _ = train_with(town, TownTransport(town), tmp_path / "journal")
    here = simulate(town, tmp_path)
    assert largest_gap(town, run, here) < 1e-6
    target = settings["target_deo"]
    assert run.metrics["target_met"]
    assert run.metrics["train"]["rate_gap"] <= target
    assert run.metrics["reason"] == here.metrics["reason"]
    promised = [note for note in run.metrics["notes"] if "in the population" in note]
    assert promised == [note for note in here.metrics["notes"] if "in the population" in note]
    assert bool(promised) == ("target_confidence" in settings)
