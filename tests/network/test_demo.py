"""Separate processes: Flower's own simulation, and `fairsilo flower demo` under a witness."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from fairsilo.network.ops.demo import compare, make_demo
from fairsilo.network.ops.processes import command
from fairsilo.run import load
from tests.docs.pages import shown
from tests.network.network import metrics_of

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]


LINES = shown((Path(__file__).parents[2] / "docs" / "network.md").read_text())
"""The commands of the page."""


def follow(line: str, folder: Path) -> str:
    """Run a command in a folder, in a process of its own; what it prints."""
    arguments = [command("fairsilo"), *line.split()[1:]]
    done = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(find_spec("ray") is None, reason="NOT TESTED in Flower's simulation: no Ray")
def test_in_flowers_simulation_it_equals_ours(tmp_path: Path) -> None:
    """Ray runs the silos, with secure aggregation, by the page's command: an additive model, whose
    penalty and pair are chosen on the way."""
    space = make_demo(tmp_path / "work", 3, rows=900, model="additive", pairs=1)
    out = tmp_path / "runs/simulated"
    (line,) = (one for one in LINES if "--simulation" in one)
    follow(line, tmp_path)
    assert metrics_of(out)["network"]["secure_aggregation"]
    found = compare(space, out)
    binned = load(out).encoder.binned
    assert binned is not None
    assert len(binned.pairs) == 1
    assert found.probabilities < 1e-8
    assert found.loss < 1e-9


def test_equalized_odds_of_intersections_to_a_target_under_a_witness(tmp_path: Path) -> None:
    """What version 0.1 could only simulate: over real nodes it is the simulation's model, and a
    witness, in a process of its own, signed every question. The page's command, on few rows."""
    (line,) = (one for one in LINES if "--notion" in one)
    line += " --silos 3 --rows 3000 --pool 60 --rounds 4 --witness"
    demos = [one for one in LINES if one.startswith("fairsilo flower demo")]
    assert {word for one in demos for word in one.split() if word[:2] == "--"} <= set(line.split())
    printed = follow(line, tmp_path)
    told = re.search(r"probabilities differ by at most (\S+),", " ".join(printed.split()))
    assert told is not None, printed
    assert float(told[1]) < 1e-6
    demo = tmp_path / "runs" / "odds"
    found = metrics_of(demo / "run")
    assert found["notion"] == "equalized-odds"
    assert found["target_deo"] == 0.05
    assert found["network"]["secure_aggregation"]
    assert "signed by 1 of 1 witnesses (witness)" in " ".join(printed.split())
    (state,) = (demo / "silos" / "witness" / "witnessed").glob("*/state.json")
    signed = json.loads(state.read_text())["signed"]
    assert len(signed) >= 2 + found["rounds"]
    # One group is left beside those pooled, compared in both classes.
    assert [one["name"].rpartition(" in ")[2] for one in found["constraints"]] == ["<=50K", ">50K"]
