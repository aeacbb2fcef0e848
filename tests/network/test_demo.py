"""Separate processes: Flower's own simulation, and `fairsilo flower demo` under a witness."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairsilo.network.ops.demo import compare, make_demo
from fairsilo.network.ops.follow import run_and_follow
from fairsilo.network.ops.launch import start_simulation
from fairsilo.network.ops.processes import command, free_ports, processes
from fairsilo.network.ops.runs import RunConfig
from tests.network.network import metrics_of

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]


@pytest.mark.skipif(find_spec("ray") is None, reason="NOT TESTED in Flower's simulation: no Ray")
def test_in_flowers_simulation_it_equals_ours(tmp_path: Path) -> None:
    """Ray runs the silos, with secure aggregation."""
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


def test_equalized_odds_of_intersections_to_a_target_under_a_witness(tmp_path: Path) -> None:
    """What version 0.1 could only simulate: over real nodes it is the simulation's model, and a
    witness, in a process of its own, signed every question."""
    arguments = (
        "flower demo --silos 3 --rows 3000 --notion equalized-odds --group sex,race --pool 60 "
        "--target-deo 0.05 --rounds 4 --witness"
    )
    done = subprocess.run(
        [command("fairsilo"), *arguments.split(), "--out", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    told = re.search(r"probabilities differ by at most (\S+),", " ".join(done.stdout.split()))
    assert told is not None, done.stdout
    assert float(told[1]) < 1e-6
    found = metrics_of(tmp_path / "demo" / "run")
    assert found["notion"] == "equalized-odds"
    assert found["target_deo"] == 0.05
    assert found["network"]["secure_aggregation"]
    (state,) = (tmp_path / "demo" / "silos" / "witness" / "witnessed").glob("*/state.json")
    signed = json.loads(state.read_text())["signed"]
    assert len(signed) >= 2 + found["rounds"]
    # One group is left beside those pooled, compared in both classes.
    assert [one["name"].rpartition(" in ")[2] for one in found["constraints"]] == ["<=50K", ">50K"]
