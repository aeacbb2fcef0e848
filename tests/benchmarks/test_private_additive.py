"""The benchmark of private additive models: its figures, and that it repeats nothing."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import private_additive


def test_the_figures_are_those_of_the_decisions_at_a_half() -> None:
    test = pd.DataFrame({"y": [1, 1, 1, 0, 0], "group": list("aabab")})
    found = private_additive.measured(test, np.array([0.9, 0.4, 0.6, 0.1, 0.2]))
    assert found["accuracy"] == 0.8
    assert found["auc"] == 1.0
    assert found["deo"] == 0.5
    assert found["log_loss"] == pytest.approx(-np.log([0.9, 0.4, 0.6, 0.9, 0.8]).mean())


def test_the_page_says_where_a_tuned_peer_is_better() -> None:
    """By hand: the log loss is better with small budgets, and worse with the largest."""
    lines = json.loads(private_additive.RESULTS.read_text())
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    said = {}
    for budget in private_additive.EPSILONS:
        told = []
        for name, words in (("additive", "additive"), ("dp-ebm-tuned", "DP-EBM, tuned")):
            own = [x["log_loss"] for x in lines if (x["model"], x["budget"]) == (name, budget)]
            mean, error = statistics.mean(own), statistics.stdev(own) / len(own) ** 0.5
            told.append((mean, error))
            (row,) = (x for x in page.splitlines() if x.startswith(f"| {budget:g} | {words} | "))
            assert f" | {mean:.4f} ({error:.4f}) | " in row
        (mine, a), (theirs, b) = told
        lead = (theirs - mine) / (a**2 + b**2) ** 0.5
        said[budget] = "better" if lead > 2 else "worse" if lead < -2 else "neither"
    assert said == {1.0: "better", 2.0: "better", 4.0: "neither", 8.0: "worse"}
    assert "log loss better at 1, 2, worse at 8, neither at 4." in page


def test_what_is_known_is_printed_and_not_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"accuracy": 0.8, "auc": 0.9, "log_loss": 0.3, "deo": 0.1, "cpu_seconds": 1.0}
    lines = [
        {"model": name, "budget": 1.0, "seed": seed, **figures}
        for seed in range(2)
        for name in (*private_additive.OURS, *private_additive.PEERS)
    ]
    path = tmp_path / "known.json"
    path.write_text(json.dumps(lines))
    private_additive.main(["--seeds", "2", "--budgets", "1", "--out", str(path)])
    assert json.loads(path.read_text()) == lines
    assert "0.8000 (0.0000)" in capsys.readouterr().out
