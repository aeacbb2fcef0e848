"""What `fairsilo flower run` prints of its figures: by the notion, as `fairsilo train` does."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.cli.flower_show import show_result
from tests.cli.conftest import Program


def test_fairness_is_that_of_the_notion(
    quick: Program, loans: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = quick(
        "train", "--data", "loans.csv", "--label", "label", "--protected-class", "1", "--group",
        "group", "--client", "client", "--split", "part", "--notion", "demographic-parity",
        "--no-baseline", "--out", "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    path = tmp_path / "run" / "metrics.json"
    metrics = json.loads(path.read_text())
    path.write_text(json.dumps(metrics | {"network": {"secure_aggregation": True}}))
    show_result(tmp_path / "run")
    shown = capsys.readouterr().out
    assert f"{1 - metrics['test']['rate_gap']:.4f}" in shown
    assert "fairness = 1 - difference of the shares predicted so" in " ".join(shown.split())
    (mine,) = (line for line in shown.splitlines() if "│ fedfair" in line)
    assert mine in done.stdout
