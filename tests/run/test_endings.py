"""Runs that fail or collapse, end to end: what metrics.json says about them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fairsilo.data import make_table
from fairsilo.run import Options, execute, save
from fairsilo.solver import SOLVERS, Agp


def run_on(frame: pd.DataFrame, folder: Path, **options: Any) -> dict[str, Any]:
    """Train on the table and read metrics.json of the run folder."""
    frame.to_csv(folder / "table.csv", index=False)
    known: dict[str, Any] = {
        "label": "label",
        "protected_class": "1",
        "group": "group",
        "client": "client",
    }
    known |= {"split": "part"}
    run = execute(Options(data=str(folder / "table.csv"), **known, **options), baseline=False)
    save(run, folder / "run")
    metrics: dict[str, Any] = json.loads((folder / "run" / "metrics.json").read_text())
    return metrics


def table(rows: int = 400, **more: Any) -> pd.DataFrame:
    frame = make_table(rows, silos=4, seed=1, **more)
    frame["part"] = ["test" if i % 5 == 0 else "train" for i in range(rows)]
    return frame


@pytest.mark.slow
def test_a_diverged_run_has_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS, "agp", partial(Agp, alpha=1e38))
    frame = table()
    frame["x0"] *= 1e6
    metrics = run_on(frame, tmp_path, solver="agp", rounds=20)
    assert metrics["reason"] == "diverged: a sum over the rows is not a finite number"
    assert not metrics["converged"]
    keys = ("accuracy", "balanced_accuracy", "deo", "fairness", "harmonic_mean", "dgeo_pooled")
    assert all(metrics["test"][key] is None for key in keys)
    assert metrics["test"]["cells"] == []
    assert metrics["test"]["rows"] == 80
    assert metrics["train"] == dict.fromkeys(metrics["train"]) | {"rows": 320}
    assert {one["accuracy"] for one in metrics["by_client"]} == {None}
    assert metrics["constant"]["accuracy"] > 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Training diverged: do not use this model" in page


@pytest.mark.slow
def test_a_collapsed_model_is_called_so_though_it_converged(tmp_path: Path) -> None:
    frame = table()
    # The classes do not depend on the features, and one of them is rare.
    frame["label"] = ["1" if i % 10 == 0 or i % 10 == 7 else "0" for i in range(len(frame))]
    frame = frame[["group", "label", "client", "part", "c0"]]
    metrics = run_on(frame, tmp_path, method="fedavg")
    assert metrics["converged"]
    assert metrics["reason"].startswith(
        "collapsed to a constant: every training row is predicted '0'; converged: "
    )


@pytest.mark.slow
def test_clients_whose_own_models_are_constant_are_counted(tmp_path: Path) -> None:
    frame = table()
    frame.loc[frame["client"] == "silo0", "label"] = "0"
    metrics = run_on(frame, tmp_path, method="st", epsilon=10.0)
    start = "collapsed to a constant: 1 of 4 clients' models give every test row one class; "
    assert metrics["reason"].startswith(start)


@pytest.mark.slow
def test_a_test_row_off_the_scale_leaves_null_and_not_nan(tmp_path: Path) -> None:
    frame = table()
    rows = frame.index[(frame["part"] == "test") & (frame["label"] == "1")][:10]
    frame.loc[rows, "x0"] = [1.7e308, -1.7e308] * 5
    frame.loc[rows, "x1"] = [1.7e308, -1.7e308] * 5
    metrics = run_on(frame, tmp_path)
    assert metrics["converged"]
    assert metrics["test"]["accuracy"] is not None
    assert metrics["test"]["dgeo_pooled"] is None
