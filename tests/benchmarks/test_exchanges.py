"""The stored exchanges and bytes of additive models are those of today's training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import exchanges, scale
from tests.network.silos import TownTransport, make_town, simulate, train_with

LINES = json.loads(exchanges.RESULTS.read_text())


def limit_of(line: dict[str, Any]) -> dict[str, float]:
    return {k: line[k] for k in ("epsilon", "target_deo") if k in line}


def test_no_training_takes_more_exchanges_or_rounds_than_were_aimed_at() -> None:
    assert all(one["exchanges"] <= 30 and one["rounds"] <= 20 for one in LINES)


def test_every_limit_of_every_data_set_is_stored() -> None:
    told = [(one["data"], limit_of(one)) for one in LINES]
    assert told == [(data, limit) for data in exchanges.DATA for limit in exchanges.LIMITS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.02},
        {"target_deo": 0.05},
        {"target_deo": 0.9},
        {"target_deo": 0.05, "pairs": 0},
    ],
    ids=str,
)
def test_what_is_counted_is_what_a_network_asks(tmp_path: Path, settings: dict[str, Any]) -> None:
    town = make_town(tmp_path, model="additive", secure_aggregation=False, **settings)
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    assert scale.exchanges(run.metrics) == len(engine.entries)
    assert scale.exchanges(simulate(town, tmp_path).metrics) == len(engine.entries)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES[:2], ids=str)
def test_adult_takes_what_is_stored(line: dict[str, Any]) -> None:
    assert exchanges.measured("adult", limit_of(line)) == line


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES[2:4], ids=str)
def test_compas_takes_what_is_stored(line: dict[str, Any], raw_data_dir: Path) -> None:
    assert exchanges.measured("compas", limit_of(line), raw_data_dir) == line
