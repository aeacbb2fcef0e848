"""A small part of the paper end to end: data, methods, tables, figures, page; and resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.coded import dense
from fairsilo.errors import FairSiloError
from fairsilo.experiment import reproduce as module
from fairsilo.experiment.cell import hold_out, prepare_cell
from fairsilo.experiment.details import POINTS
from fairsilo.experiment.figures import draw_all
from fairsilo.experiment.grid import CELLS, FOLDS, find, paper_tables, settings
from fairsilo.experiment.publish import publish
from fairsilo.experiment.reproduce import run_parts
from fairsilo.experiment.results import Results
from tests.cli.conftest import Program
from tests.experiment.parts import trained


def test_validation_rows_come_from_every_clients_training_rows(raw_data_dir: Path) -> None:
    whole = prepare_cell(find("compas-lr-non-iid"), 0, raw_data_dir)
    held = hold_out(whole, 0)
    assert held.federation.clients == whole.federation.clients
    assert held.federation.rows == 3840
    assert len(held.test_y) == 960
    np.testing.assert_array_equal(np.diff(held.federation.offsets), 192)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([dense(held.federation.x)[:, 0], dense(held.test_x)[:, 0]])),
        np.sort(dense(whole.federation.x)[:, 0]),
    )


def test_the_folds_are_all_rows_once(raw_data_dir: Path) -> None:
    whole = prepare_cell(find("compas-lr-iid"), 3, raw_data_dir)
    folds = [hold_out(whole, 3, fold) for fold in range(FOLDS)]
    np.testing.assert_array_equal(folds[0].test_y, hold_out(whole, 3).test_y)
    every = np.concatenate([dense(one.test_x) for one in folds])
    rows = dense(whole.federation.x)
    np.testing.assert_array_equal(every[np.lexsort(every.T)], rows[np.lexsort(rows.T)])


@pytest.mark.slow
def test_one_cell_and_nothing_twice(
    raw_data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = find("drug-lr-iid")
    results = Results(tmp_path)
    said: list[str] = []

    def say(what: str, done: int, total: int, left: float) -> None:
        said.append(what)

    more: dict[str, Any] = {"seeds": 1, "cv": True}
    assert run_parts(results, [cell], "fast", raw_data_dir, say, **more) == len(said) == 10
    assert run_parts(results, [cell], "fast", raw_data_dir, say, **more) == 0
    verdicts = dict(publish(results, "fast"))
    assert list(verdicts) == [f"fast, {name}" for name in ("test", "validation", "per-seed", "cv")]
    assert all(len(found) == 1 for found in verdicts.values())
    assert "Does cross-validation close the distance?" in (tmp_path / "README.md").read_text()
    tables = pd.read_csv(tmp_path / "tables.csv")
    assert set(tables["method"]) == {
        "FedAvg", "FedAvg (E=5, B=32)", "EO", "EO conditional", "CEO", "ST", "AF", "LCO", "FedFair",
        "Constant",
    }  # fmt: skip
    fedfair = tables[(tables["method"] == "FedFair") & (tables["selection"] == "test")].iloc[0]
    assert fedfair["harmonic_mean"] == 0.81  # the paper's, beside ours
    assert fedfair["ours_harmonic_mean"] >= 0.81 - 0.02
    models = results.read("fast", cell, "st")
    assert models.groupby(["setting", "seed", "split"]).size().eq(10).all()
    assert "python" in json.loads(models["made_by"].iloc[0])
    for method in (*cell.methods, "constant"):
        check_details(results.read("fast", cell, method))
    assert all(path.stat().st_size > 10_000 for path in draw_all(results, "fast"))
    assert "FedFair" in (tmp_path / "report.html").read_text()
    # Only a missing part, as after a crash, is computed again.
    results.file("fast", cell, "eo").unlink()
    calls: list[str] = []

    def fake(tables: object, method: str, *rest: object) -> list[dict[str, object]]:
        calls.append(method)
        return [{"setting": 0.0}]

    monkeypatch.setattr(module, "part_rows", fake)
    assert run_parts(results, [cell], "fast", raw_data_dir, say, seeds=1) == 1
    assert calls == ["eo"]


def check_details(models: pd.DataFrame) -> None:
    """Intervals, groups, clients and training are present and consistent with the figures."""
    for name in ("accuracy", "fairness"):
        assert (models[f"{name}_low"] <= models[name] + 1e-12).all()
        assert (models[f"{name}_high"] >= models[name] - 1e-12).all()
        assert (models[f"{name}_high"] - models[f"{name}_low"]).between(0.005, 0.5).all()
    rates = models.filter(like="rate: ")
    assert rates.shape[1] == 2
    gap = (rates.iloc[:, 0] - rates.iloc[:, 1]).abs()
    np.testing.assert_allclose(1 - gap, models["fairness"], atol=1e-12)
    if "trace" in models:
        tested = models[models["split"] == "test"]
        assert (tested["client_accuracy_least"] <= tested["client_accuracy_most"]).all()
        assert (tested["client_dgeo_largest"] >= 0).all()
        kept = tested.dropna(subset="trace")
        assert len(kept) == kept["setting"].nunique() == models["setting"].nunique()
        for row in kept.to_dict("records"):
            trace = json.loads(row["trace"])
            if row["rounds"] <= POINTS:
                assert trace["round"] == list(range(1, int(row["rounds"]) + 1))
            assert trace["round"][-1] == row["rounds"]
            assert trace["loss"][-1] == pytest.approx(row["loss"], rel=1e-4)


def test_a_data_set_that_is_missing_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    said: list[str] = []
    cells = [find("adult-lr-iid"), find("drug-lr-iid")]
    with pytest.raises(FairSiloError, match=r"DRUG is not at .*fairsilo data get drug"):
        run_parts(Results(tmp_path), cells, "fast", tmp_path, lambda what, *_: said.append(what))
    assert said == []


@pytest.mark.slow
def test_the_papers_solver_alone_fills_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no choice of solver (AF, local epochs, the constant) is in both paths' tables."""

    def fake(tables: module.Tables, method: str, *rest: object) -> pd.DataFrame:
        return trained(settings(tables.cell, method))

    monkeypatch.setattr(module, "part_rows", fake)
    monkeypatch.setattr(module, "raw_files", lambda *_: {})
    results = Results(tmp_path)
    assert run_parts(results, CELLS, "agp", None, lambda *_: None) == 6 * 10 + 6 * 9
    results.record("agp", "fairsilo reproduce --solver agp", 114, 270.0)
    publish(results, "agp")
    tables = pd.read_csv(tmp_path / "tables.csv")
    keys = ["setting", "dataset", "model", "method"]
    for selection in ("test", "validation"):
        found = tables[tables["selection"] == selection]
        assert found.merge(paper_tables(), on=keys).groupby(keys).ngroups == 78
        assert (found["method"] == "Constant").sum() == 12
    assert set(tables["collapsed"]) <= {True, False}
    assert ",false\n" in (tmp_path / "tables.csv").read_text()
    readme = (tmp_path / "README.md").read_text()
    assert "figures/figure1-agp.png" in readme
    assert "-fast.png" not in readme
    assert "`fairsilo reproduce --solver agp` computed 114 parts in 4.5 minutes" in readme
    assert "theorems.csv" not in readme
    page = (tmp_path / "report.html").read_text()
    assert page.count('class="chart scatter"') == 12
    assert page.count('class="chart lines pointed"') == 12
    assert page.count('class="chart dots"') == 12
    assert page.count('class="chart lines"') == 36


def test_sweep_and_compare_commands(
    fairsilo: Program, quick: Program, raw_data_dir: Path, tmp_path: Path
) -> None:
    raw = str(raw_data_dir)
    done = fairsilo(
        "sweep", "--data", "drug", "--epsilons", "1e-3,0.1", "--seeds", "2",
        "--data-dir", raw, "--out", "swept",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    swept = pd.read_csv(tmp_path / "swept" / "sweep.csv")
    assert swept["epsilon"].tolist() == [1e-3, 0.1]
    assert (swept["ending"] == "converged").all()
    assert "collapsed: balanced accuracy below 0.53" in done.stdout
    done = quick(
        "compare", "--data", "drug", "--model", "lr", "--seeds", "1", "--data-dir", raw,
        "--out", "compared",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    compared = pd.read_csv(tmp_path / "compared" / "compare.csv")
    assert {"FedFair", "Constant", "AF"} <= set(compared["method"])
    assert {"ending", "collapsed", "settings_diverged"} <= set(compared)
    assert "EO conditional" in done.stdout
    assert "collapsed, balanced accuracy below 0.53: " in done.stdout
    assert (tmp_path / "compared" / "report.html").is_file()
    for words, hint in (
        (("sweep", "--epsilons", "a,b"), "--epsilons"),
        (("sweep", "--epsilons", "-1"), "--epsilons"),
        (("compare", "--data", "iris"), "adult, compas, drug"),
        (("reproduce", "--data", "loans.csv"), "--label"),
        (("sweep", "--method", "af", "--model", "mlp"), "--model lr"),
        (("reproduce", "--only", "adult"), "adult-lr-iid"),
    ):
        bad = quick(*words)
        assert bad.returncode == 2
        assert hint in bad.stderr
        assert len(bad.stderr.strip().splitlines()) == 1
