"""The same app in Flower's own simulation: Ray plays the silos, masks and all."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from fairsilo.flower.demo import compare, make_demo
from fairsilo.flower.launch import RunConfig, run_and_follow, start_simulation
from fairsilo.flower.processes import free_ports, processes
from tests.flower.network import metrics_of

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.mark.skipif(find_spec("ray") is None, reason="NOT TESTED in Flower's simulation: no Ray")
def test_equals_the_simulation_of_fairsilo(tmp_path: Path) -> None:
    space, out = make_demo(tmp_path / "work", 3, rows=900, rounds=2), tmp_path / "run"
    port = free_ports(1)[0]
    with processes(tmp_path / "logs") as group:
        start_simulation(space, port, group)
        config = RunConfig(out=out, simulation=port)
        run_and_follow(space, config, lambda event: None, lambda: group.alive("superlink"))
    assert metrics_of(out)["network"]["secure_aggregation"]
    found = compare(space, out)
    assert found.probabilities < 1e-6
    assert found.loss < 1e-9
