"""An own table: the study of the paper on it, and the notions and targets of `train` in
comparisons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.cli.shared_options import OPTIONS
from fairsilo.cli.studies import STUDIED, cell_of
from fairsilo.data import make_table
from fairsilo.experiment.cell import Draw, prepare_cell, refused, run_aimed, run_method
from fairsilo.experiment.grid import CELLS, Cell, aimed_title, solver_of
from fairsilo.experiment.own import studied
from fairsilo.experiment.page_parts import HOW, about, how
from fairsilo.experiment.paired import corrected
from fairsilo.experiment.results import Results, question
from fairsilo.run import Options, execute
from fairsilo.solver import Lbfgs
from tests.cli.conftest import Program

COLUMNS = ("--label", "label", "--group", "group", "--protected-class", "1", "--client", "client")
SAID: dict[str, Any] = {
    "label": "label", "group": "group", "protected_class": "1", "client": "client"
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two groups, two classes, three clients by a column."""
    make_table(rows=600, silos=3, seed=1, bias=1.0).to_csv(tmp_path / "own.csv", index=False)
    return tmp_path / "own.csv"


def in_parts(rows: pd.DataFrame, path: Path) -> Path:
    """With a column that says which rows are for testing."""
    rows["part"] = np.where(np.arange(len(rows)) % 5, "train", "test")
    rows.to_csv(path, index=False)
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two settings of every method, and few rounds of local epochs."""
    monkeypatch.setattr("fairsilo.experiment.grid.count_of", lambda cell: 2)
    monkeypatch.setattr("fairsilo.experiment.grid.LOCAL_ROUNDS", 40)


def cell(table: Path, model: str = "lr", **said: Any) -> Cell:
    """A comparison of that table, all else at its default."""
    names = (*STUDIED, "target_deo", "target_by", "target_confidence")
    plain = {name: OPTIONS[name].default for name in names}
    return cell_of({**plain, "estimator": None, **SAID, "data": str(table), **said}, model)


def first(asked: Cell) -> Draw:
    return Draw(0, "test", prepare_cell(asked, 0, None))


def fit(asked: Cell, method: str = "fedfair", epsilon: float = 0.01) -> dict[str, Any]:
    """What a comparison says of one method at one setting."""
    row, *_ = run_method(asked, method, (epsilon,), solver_of("fast", asked), [first(asked)])
    return row


@pytest.mark.slow
def test_the_papers_study_of_an_own_table(
    quick: Program, table: Path, tmp_path: Path, few: None
) -> None:
    call = ("reproduce", "--data", "own.csv", *COLUMNS, "--seeds", "2", "--cv", "--out", "here")
    done = quick(*call)
    assert done.returncode == 0, done.stderr
    assert "19 parts computed" in done.stdout
    assert "paper" not in done.stdout
    made = tmp_path / "here"
    assert {one.name for one in made.iterdir()} == {
        "parts", "report.html", "seeds.csv", "tables.csv", "tests.csv"
    }  # fmt: skip
    tables = pd.read_csv(made / "tables.csv")
    assert set(tables["dataset"]) == {"own.csv"}
    assert tables[["accuracy", "fairness", "harmonic_mean", "opt"]].isna().all(axis=None)
    assert tables["ours_harmonic_mean"].notna().all()
    lr, network = (tables[tables["model"] == name] for name in ("lr", "nn"))
    assert lr.groupby("selection")["method"].nunique().to_dict() == dict.fromkeys(
        ("test", "validation", "per-seed", "cv"), 10
    )
    assert network.groupby("selection")["method"].nunique().to_dict() == dict.fromkeys(
        ("test", "validation", "per-seed"), 9
    )
    seeds = pd.read_csv(made / "seeds.csv")
    mine = seeds[(seeds["model"] == "lr") & (seeds["method"] == "FedFair")]
    assert len(mine) == 2 * 2  # settings and seeds
    assert mine["cv_harmonic_mean"].notna().all()
    assert seeds.loc[seeds["model"] == "nn", "cv_harmonic_mean"].isna().all()
    # The mean over seeds of the setting that is best on test rows.
    best = mine.groupby("opt")["harmonic_mean"].mean()
    told = lr[(lr["method"] == "FedFair") & (lr["selection"] == "test")].iloc[0]
    assert told["ours_harmonic_mean"] == pytest.approx(best.max(), abs=1e-5)
    assert told["ours_opt"] == best.idxmax()
    # The paired test over the seeds, with the table's own share of test rows: 1 to 4.
    tests = pd.read_csv(made / "tests.csv")
    asked = (tests["selection"] == "test") & (tests["model"] == "lr")
    line = tests[asked & (tests["rival"] == "FedAvg")].iloc[0]
    rival = seeds[(seeds["model"] == "lr") & (seeds["method"] == "FedAvg")]
    d = mine[mine["opt"] == best.idxmax()]["harmonic_mean"].to_numpy()
    expected = corrected(d - rival["harmonic_mean"].to_numpy(), 0.25)
    assert line[["difference", "low", "high", "p"]].tolist() == pytest.approx(expected, abs=1e-3)
    page = (made / "report.html").read_text()
    assert "own.csv: all methods" in page
    assert "every seed draws anew" in page
    for word in ("Figure 1", "Table 1", "In the paper", "theorems", str(tmp_path)):
        assert word not in page, word
    # Finished parts are kept; those of other rows are not taken for them.
    assert "0 parts computed" in quick(*call, "--only", "own-lr").stdout
    make_table(rows=500, silos=3, seed=2).to_csv(table, index=False)
    again = quick(*call, "--only", "own-lr", "--method", "fedavg")
    assert "1 parts computed" in again.stdout, again.stderr


@pytest.mark.slow
def test_methods_that_cannot_take_a_table_are_left_out_of_its_study(
    quick: Program, tmp_path: Path, few: None
) -> None:
    rows = make_table(rows=600, silos=3, groups=3, classes=3, seed=1)
    in_parts(rows, tmp_path / "own.csv")
    call = (
        "reproduce", "--data", "own.csv", *COLUMNS, "--split", "part", "--seeds", "2", "--only",
        "own-lr", "--no-validation",
    )  # fmt: skip
    done = quick(*call)
    assert done.returncode == 0, done.stderr
    for name in ("eo", "eo-conditional", "ceo", "af"):
        assert f"{name} is left out: method" in done.stderr
    made = tmp_path / "runs" / "reproduce-own"
    tables = pd.read_csv(made / "tables.csv")
    assert set(tables["method"]) == {
        "FedAvg", "FedAvg (E=5, B=32)", "ST", "LCO", "FedFair", "Constant"
    }  # fmt: skip
    assert set(tables["selection"]) == {"test"}
    # Seeds that all have the same test rows say nothing of the rows.
    assert (made / "tests.csv").read_text().strip() == ""
    page = (made / "report.html").read_text()
    assert "Nothing is tested" in page
    assert "AgnosticFair" not in page
    bad = quick(*call, "--method", "af")
    assert bad.returncode == 2
    assert "method af needs two classes" in bad.stderr


def test_what_reproduce_refuses(quick: Program, table: Path, tmp_path: Path) -> None:
    other = tmp_path / "here" / "parts" / "fast" / "drug-lr-iid"
    other.mkdir(parents=True)
    for words, hint in (
        (("--data", "own.csv"), "--label is missing"),
        (("--notion", "equalized-odds"), "--notion is for an own table"),
        (("--estimator", "pooled"), "--estimator is for an own table"),
        (("--data", "adult"), "use --only adult-lr-iid"),
        (("--data", "own.csv", *COLUMNS, "--only", "adult-lr-iid"), "own-lr"),
        (("--data", "own.csv", *COLUMNS, "--out", "here"), "has results of drug-lr-iid"),
        (("--data", "own.csv", *COLUMNS, "--model", "lr"), "No such option"),
    ):
        bad = quick("reproduce", *words)
        assert bad.returncode == 2, words
        assert hint in bad.stderr, words


def test_a_study_knows_its_rows(table: Path) -> None:
    asked = cell(table)
    whole, why = studied(asked, 1, validation=True)
    assert why == {}
    assert whole.study is not None
    assert whole.study.test_share == 0.25
    assert whole.study.classes == 2
    parts = in_parts(pd.read_csv(table), table.with_name("parts.csv"))
    fixed, _ = studied(cell(parts, split="part"), 1, validation=True)
    assert fixed.study is not None
    assert fixed.study.test_share is None
    mean, _ = studied(cell(table, estimator="mean"), 1, validation=False)
    told = {question("fast", one, "fedfair", True) for one in (whole, fixed, mean)}
    assert len(told) == 3
    assert str(table.parent) not in "".join(told)
    assert all('"own"' not in question("fast", one, "fedfair", True) for one in CELLS)


def test_parts_of_other_rows_are_not_shown(table: Path, tmp_path: Path) -> None:
    """Else a method's figures on the rows of today would stand beside another's on others."""
    before, _ = studied(cell(table), 1, validation=False)
    made = pd.DataFrame([{"seed": 0, "setting": 0.0, "split": "test", "harmonic_mean": 0.7}])
    Results(tmp_path, (before,)).write("fast", before, "lco", False, made, 1.0, 1)
    make_table(rows=500, silos=3, seed=2).to_csv(table, index=False)
    now, _ = studied(cell(table), 1, validation=False)
    other, _ = studied(cell(table, clients=2, client=None), 1, validation=False)
    shown = [Results(tmp_path, (one,)).has("fast", one, "lco") for one in (before, now, other)]
    assert shown == [True, False, False]


def test_fairness_follows_the_notion(table: Path) -> None:
    plain = fit(cell(table))
    for notion in ("demographic-parity", "accuracy-parity", "equalized-odds", "bounded-loss"):
        asked = cell(table, notion=notion)
        limit = 0.5 if notion == "bounded-loss" else 0.01
        row = fit(asked, epsilon=limit)
        options = Options(data=str(table), notion=notion, epsilon=limit, **SAID)
        test = execute(options, baseline=False).metrics["test"]
        gap = "deo" if notion == "bounded-loss" else "rate_gap"
        assert row["fairness"] == pytest.approx(1 - test[gap]), notion
        assert row["dgeo_pooled"] == pytest.approx(test["dgeo_pooled"], abs=1e-6), notion
        assert row["fairness_low"] <= row["fairness"] <= row["fairness_high"], notion
        assert abs(row["loss"] - plain["loss"]) > 1e-4, notion
        assert (how(asked) == HOW) == (notion == "bounded-loss")
        assert (notion in how(asked)) == (notion != "bounded-loss")
    asked = cell(table, notion="demographic-parity")
    assert "has a notion of fairness of its own" in refused(asked, "eo", first(asked))
    assert how(cell(table)) == HOW


def test_the_estimator_is_the_one_asked_for(table: Path) -> None:
    pooled, mean = (fit(cell(table, estimator=name)) for name in ("pooled", "mean"))
    assert abs(pooled["loss"] - mean["loss"]) > 1e-6
    run = execute(Options(data=str(table), estimator="mean", epsilon=0.01, **SAID), baseline=False)
    assert mean["loss"] == pytest.approx(float(run.trained.outcome.last.loss), abs=1e-7)
    assert "averaged over the clients (estimator mean)" in str(about(cell(table, estimator="mean")))
    # Of the paper's own data the default is the paper's.
    adult: dict[str, Any] = {
        "data": "adult",
        "label": None,
        "group": None,
        "protected_class": None,
        "client": None,
    }
    assert cell(table, **adult).own is None
    asked = cell(table, **adult, estimator="pooled")
    assert asked.options(0).estimator == "pooled"


def test_layers_are_those_asked_for(table: Path) -> None:
    asked = cell(table, "mlp", hidden="3")
    row = fit(asked)
    options = Options(
        data=str(table), model="mlp", hidden=(3,), epsilon=0.01, solver=Lbfgs(), rounds=200, **SAID
    )
    last = execute(options, baseline=False).trained.outcome.last
    assert row["loss"] == pytest.approx(float(last.loss), abs=1e-3)
    assert row["bytes_up"] < fit(cell(table, "mlp"))["bytes_up"] / 2
    assert "a network with layers of 3;" in str(about(asked))


@pytest.mark.parametrize("by", ["proxy", "search"])
def test_a_target_is_met_as_train_meets_it(table: Path, by: str) -> None:
    target: dict[str, Any] = {"target_deo": 0.02, "target_by": by}
    asked = cell(table, **target)
    assert asked.options(0).target_deo is None  # limits of the grid are on losses
    (row,) = run_aimed(asked, "fedfair", solver_of("fast", asked)[0], [first(asked)])
    run = execute(Options(data=str(table), **target, **SAID), baseline=False)
    assert row["loss"] == pytest.approx(float(run.trained.outcome.last.loss), abs=1e-6)
    assert row["accuracy"] == pytest.approx(run.metrics["test"]["accuracy"])
    assert row["setting"] == 0.02
    assert abs(row["loss"] - fit(asked, "fedavg")["loss"]) > 1e-5
    (other,) = run_aimed(asked, "fedfair", solver_of("fast", asked)[0], [first(asked)], 0.9)
    assert other["setting"] == 0.9
    assert other["loss"] < row["loss"]  # it does not bind


def test_thresholds_are_those_of_train(table: Path) -> None:
    asked = cell(table, target_deo=0.02, target_by="search")
    (row,) = run_aimed(asked, "thresholds", solver_of("fast", asked)[0], [first(asked)])
    options = Options(data=str(table), method="thresholds", target_deo=0.02, **SAID)
    test = execute(options, baseline=False).metrics["test"]
    assert row["accuracy"] == pytest.approx(test["accuracy"])
    assert row["fairness"] == pytest.approx(test["fairness"])
    assert asked.own is not None
    weighted = replace(asked, own=replace(asked.own, class_weight="balanced"))
    assert refused(asked, "thresholds", first(asked), aimed=True) == ""
    assert "take weights" in refused(weighted, "thresholds", first(asked), aimed=True)


@pytest.mark.slow
def test_compare_has_the_target_beside_the_grids(
    quick: Program, table: Path, tmp_path: Path, few: None
) -> None:
    done = quick(
        "compare", "--data", "own.csv", *COLUMNS, "--seeds", "1", "--notion", "demographic-parity",
        "--out", "compared",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(tmp_path / "compared" / "compare.csv")
    # Without one a notion about rates takes 0.05, as in `train`.
    assert {aimed_title(name, 0.05) for name in ("fedfair", "thresholds")} <= set(found["method"])
    assert "FedFair to 0.05" in done.stdout
    assert "EO is left out: method eo has a notion of fairness of its own" in done.stderr
    page = (tmp_path / "compared" / "report.html").read_text()
    assert "rates within 0.05: FedFair to 0.05, Thresholds to 0.05" in page
    assert "by the notion demographic-parity" in page


def test_a_sweep_of_targets(quick: Program, table: Path, tmp_path: Path) -> None:
    own = ("sweep", "--data", "own.csv", *COLUMNS, "--seeds", "1", "--out", "swept")
    done = quick(*own, "--target-deo", "0.02,0.9")
    assert done.returncode == 0, done.stderr
    swept = pd.read_csv(tmp_path / "swept" / "sweep.csv")
    assert swept["target"].tolist() == [0.02, 0.9]
    assert "epsilon" not in swept
    assert swept["accuracy"].nunique() == 2
    page = (tmp_path / "swept" / "report.html").read_text()
    assert "--target-deo 0.02,0.9" in page
    assert "own.csv, LR: fedfair against target" in page
    for words, hint in (
        (("--target-deo", "0.02", "--epsilons", "0.1"), "not both"),
        (("--target-deo", "1.5"), "give a difference of rates"),
        (("--target-deo", "0.02", "--method", "lco"), "not lco"),
        (("--target-deo", "0.02", "--notion", "bounded-loss"), "has none"),
        (("--target-by", "search"), "give --target-deo"),
        (("--target-confidence", "0.9"), "give --target-deo"),
        (("--target-deo", "0.02", "--target-confidence", "0.9"), "rows"),
        (("--method", "thresholds"), "fedfair, lco, st"),
        (("--hidden", "3"), "--hidden is for --model mlp"),
        (("--estimator", "median"), "mean, pooled"),
        (("--notion", "justice"), "demographic-parity"),
    ):
        bad = quick(*own, *words)
        assert bad.returncode == 2, words
        assert hint in bad.stderr, (words, bad.stderr)
        assert len([one for one in bad.stderr.splitlines() if "fairsilo: " in one]) <= 1
