"""`python -m benchmarks.flower` on few rows: real processes, and what docs/network.md quotes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import flower
from fairsilo.network.ops.processes import MARK
from tests.benchmarks.test_flower import MADE

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
ROWS = 1600


def test_a_run_of_few_rows_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "flower.json"
    asked = ["--silos", "3", "--rows", str(ROWS), "--no-secure-aggregation", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["flower", *asked])
    monkeypatch.setattr(flower, "start_up", lambda code: (1.0, 1.0, 1.0))
    monkeypatch.setenv(MARK, os.environ.get(MARK, ""))
    flower.main()
    name = flower.workload(3, ROWS, False, False)
    own = [one for one in json.loads(path.read_text()) if one["workload"] == name]
    found = {one["quantity"]: one["value"] for one in own}
    assert {one["contestant"] for one in own} == {flower.OURS}
    assert MADE.keys() | {"seconds a round"} <= found.keys()
    assert found["training rows"] == ROWS - ROWS // 8
    phases = sum(value for name, value in found.items() if name.startswith("seconds of the phase"))
    # From the run's start on; the processes are started before.
    assert found["seconds of the rounds"] < phases
    assert phases < found["seconds in all, from the first start to the last answer"]
    assert found["difference of probabilities from the simulation"] < 1e-6
