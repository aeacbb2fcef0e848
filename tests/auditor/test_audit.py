"""Audits of a run, of columns and of a model in Python: the same numbers as from the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairsilo
from fairsilo.auditor import AuditOptions, execute, write
from fairsilo.data import load, make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import execute as train
from fairsilo.run import save
from tests.auditor.conftest import NUMBERS, Case
from tests.network.silos import bounded

COLUMNS: dict[str, Any] = {"label": "label", "group": "group", "client": "client"}


def by_hand(
    frame: pd.DataFrame, column: str, a: str, b: str, name: str, split: str | None
) -> float:
    """Mean of a column over the rows of (a, name) minus that of (b, name); per silo if `split`."""
    rows = frame[frame["label"].astype(str) == name]
    if split is not None:
        return float(
            np.mean([by_hand(part, column, a, b, name, None) for _, part in rows.groupby(split)])
        )
    return float(
        rows.loc[rows["group"] == a, column].mean() - rows.loc[rows["group"] == b, column].mean()
    )


@pytest.mark.slow
def test_a_run_on_its_own_table_is_audited_on_its_test_rows(case: Case) -> None:
    found = execute(AuditOptions(data=case.table, model=case.model))
    test = case.run.metrics["test"]
    assert found["rows"] == test["rows"] == 300
    assert found["which"] == "the test rows of the run"
    assert found["unseen"] is True
    assert found["silos"] == 3
    assert found["limit"] == 0.05
    assert found["accuracy"]["value"] == pytest.approx(test["accuracy"])
    assert found["deo"]["pooled"]["value"] == pytest.approx(test["deo"])
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(test["dgeo_pooled"])
    # The run's rows belong to clients, so its own certificate has both estimators too.
    assert found["certificate"] == case.run.metrics["certificate"]


@pytest.mark.slow
def test_an_additive_model_is_audited_and_certified_as_the_run_says(
    case: Case, tmp_path: Path
) -> None:
    options = replace(case.run.options, model="additive", pairs=2, rounds=None)
    run = train(options, baseline=False)
    save(run, tmp_path / "run")
    found = execute(AuditOptions(data=case.table, model=tmp_path / "run"))
    test = run.metrics["test"]
    for name, value in (("accuracy", found["accuracy"]), ("deo", found["deo"]["pooled"])):
        assert value["value"] == pytest.approx(test[name])
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(test["dgeo_pooled"])
    assert found["certificate"] == run.metrics["certificate"]


@pytest.mark.slow
def test_the_limit_is_held_against_what_the_run_promised_and_nothing_else(case: Case) -> None:
    whole = execute(AuditOptions(data=case.table, model=case.model, protected_class=("all",)))
    assert whole["limits"] == [None, 0.05], "class 0 was never limited"
    assert whole["certificate"] == case.run.metrics["certificate"]
    assert any("1 of 2 pairs are compared without a limit" in note for note in whole["notes"])
    assert len(whole["pairs"]) == 2
    other = execute(AuditOptions(data=case.table, model=case.model, protected_class=("0",)))
    assert other["limit"] is None
    assert "No limit was set" in other["certificate"]["statement"]
    asked = execute(
        AuditOptions(data=case.table, model=case.model, protected_class=("all",), epsilon=0.3)
    )
    assert asked["limits"] == [0.3, 0.3], "who names a limit means it for all"


@pytest.mark.slow
def test_a_run_that_protects_every_class_is_audited_in_every_class(
    case: Case, tmp_path: Path
) -> None:
    save(train(replace(case.run.options, protected_class="all"), baseline=False), tmp_path / "run")
    found = execute(AuditOptions(data=case.table, model=tmp_path / "run"))
    assert found["protected"] == ["0", "1"]
    assert found["limits"] == [0.05, 0.05]
    assert found["which"] == "the test rows of the run"


@pytest.mark.slow
def test_a_private_run_is_audited_on_its_test_rows(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact number of training rows is not stored; the table is recognised without it."""
    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", lambda size, s, _: np.full(size, s))
    declared = bounded(case.run.prepared.schema)
    (tmp_path / "schema.json").write_text(declared.model_dump_json())
    told: dict[str, Any] = {
        "client_names": case.run.client_names,
        "schema": tmp_path / "schema.json",
    }
    options = replace(case.run.options, **told, dp_epsilon=8.0, rounds=2)
    run = train(options, baseline=False)
    save(run, tmp_path / "run")
    assert run.metrics["train"]["rows"] != 600
    found = execute(AuditOptions(data=case.table, model=tmp_path / "run"))
    assert (found["rows"], found["unseen"]) == (300, True)


def test_rows_that_training_saw_give_no_certificate(case: Case) -> None:
    for rows in ("train", "all"):
        found = execute(AuditOptions(data=case.table, model=case.model, rows=rows))
        assert "There is no certificate" in found["certificate"]["statement"]
        assert any("training saw rows" in note for note in found["notes"])
    train = execute(AuditOptions(data=case.table, model=case.model, rows="train"))
    got = train["dgeo"]
    assert got["pooled"]["value"] == pytest.approx(case.run.metrics["train"]["dgeo_pooled"])
    assert got["mean"]["value"] == pytest.approx(case.run.metrics["train"]["dgeo_mean"])


def test_another_table_is_audited_whole(case: Case, tmp_path: Path) -> None:
    other = make_table(300, silos=3, seed=9)
    other["part"] = ["test" if i % 3 == 0 else "train" for i in range(len(other))]
    # Same file name as the training table but other rows: they must not count as its test rows.
    other.to_csv(tmp_path / "loans.csv", index=False)
    found = execute(AuditOptions(data=str(tmp_path / "loans.csv"), model=case.model))
    assert found["rows"] == 300
    assert found["unseen"] is None
    assert "provided the model never saw them" in found["certificate"]["statement"]


def test_columns_against_the_rows_themselves(case: Case) -> None:
    table = str(case.folder / "answers.csv")
    probability = ("0=p0", "1=p1")
    found = execute(
        AuditOptions(data=table, predictions="decision", probability=probability, **COLUMNS)
    )
    own = np.where(case.frame["label"].astype(str) == "1", case.frame["p1"], case.frame["p0"])
    frame = case.frame.assign(
        loss=-np.log(own), hit=(case.frame["decision"] == case.frame["label"]) * 1.0
    )
    assert [pair["class"] for pair in found["pairs"]] == ["0", "1"]
    for pair in found["pairs"]:
        for key, column in (("rate_gap", "hit"), ("loss_gap", "loss")):
            for estimator, split in (("pooled", None), ("mean", "client")):
                want = by_hand(frame, column, pair["a"], pair["b"], pair["class"], split)
                assert pair[key][estimator]["value"] == pytest.approx(want)
    only = execute(AuditOptions(data=table, predictions="decision", **COLUMNS))
    assert only["deo"] == found["deo"]
    assert only["dgeo"]["pooled"]["value"] is None
    assert "DGEO and its certificate are left out" in only["notes"][0]
    alone = execute(
        AuditOptions(data=table, probability=("p1",), protected_class=("1",), **COLUMNS)
    )
    assert alone["dgeo"]["pooled"]["value"] == pytest.approx(
        abs(found["pairs"][1]["loss_gap"]["pooled"]["value"])
    )


def test_from_python_is_the_same_as_from_the_table(case: Case, tmp_path: Path) -> None:
    frame = case.frame
    here = fairsilo.audit(
        frame[NUMBERS].to_numpy(), frame["label"], sensitive_features=frame["group"],
        clients=frame["client"], predict_proba=case.other.predict_proba,
    )  # fmt: skip
    there = execute(
        AuditOptions(data=str(case.folder / "answers.csv"), probability=("0=p0", "1=p1"), **COLUMNS)
    )
    for key in ("rows", "silos", "deo", "cells", "accuracy"):
        assert here.found[key] == there[key]
    assert here.dgeo == pytest.approx(there["dgeo"]["pooled"]["value"])
    assert here.deo == there["deo"]["pooled"]["value"]
    assert list(here.pairs["class"]) == ["0", "1"]
    assert len(here.cells) == 4
    here.save(tmp_path)
    assert json.loads((tmp_path / "audit.json").read_text())["rows"] == len(frame)


def test_many_groups_and_classes(tmp_path: Path) -> None:
    frame = make_table(3000, silos=4, groups=4, classes=3, seed=3)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], len(frame))
    found = fairsilo.audit(
        y=frame["label"], sensitive_features=frame["group"], clients=frame["client"], y_proba=p
    ).found
    assert len(found["pairs"]) == 3 * 6
    assert {(one["a"], one["b"]) for one in found["pairs"]} == set(
        combinations(("g0", "g1", "g2", "g3"), 2)
    )
    gaps = [abs(one["rate_gap"]["pooled"]["value"]) for one in found["pairs"]]
    deo = found["deo"]["pooled"]
    assert deo["value"] == max(gaps)
    assert deo["newcombe"][0] <= deo["value"] <= deo["newcombe"][1]
    widest = max(max(map(abs, one["rate_gap"]["pooled"]["newcombe"])) for one in found["pairs"])
    assert deo["newcombe"][1] == pytest.approx(widest)
    write(found, tmp_path)


def test_a_folder_of_files_and_small_cells(case: Case, tmp_path: Path) -> None:
    (tmp_path / "banks").mkdir()
    frame = case.frame
    small = (frame["client"] == "silo0") & (frame["group"] == "g0") & (frame["label"] == "1")
    frame = frame.drop(index=frame.index[small][3:])
    for name, part in frame.groupby("client"):
        part.drop(columns="client").to_parquet(tmp_path / "banks" / f"{name}.parquet")
    options = AuditOptions(
        data=str(tmp_path / "banks"), predictions="decision", label="label", group="group",
        min_cell=5,
    )  # fmt: skip
    found = execute(options)
    assert found["silos"] == 3
    cell = next(c for c in found["cells"] if (c["group"], c["class"]) == ("g0", "1"))
    kept = frame[(frame["client"] != "silo0") & (frame["group"] == "g0") & (frame["label"] == "1")]
    assert cell["hidden"] == 1
    assert cell["rows"] == len(kept)
    assert found["pairs"][1]["rate_gap"]["mean"]["silos"] == 2
    assert any(
        "1 cells (a group and class in a silo) have fewer than 5" in n for n in found["notes"]
    )


def test_perfect_predictions_of_a_named_data_set() -> None:
    frame = load("adult")
    found = fairsilo.audit(
        y=frame["income"], sensitive_features=frame["sex"], y_pred=frame["income"],
        protected_class=">50K",
    )  # fmt: skip
    assert found.deo == 0.0
    assert found.found["rows"] == 45_222


def test_a_probability_of_zero_is_noted() -> None:
    y = ["0", "1"] * 40
    s = ["a", "a", "b", "b"] * 20
    p = np.tile([0.0, 1.0, 1.0, 0.0], 20)
    found = fairsilo.audit(y=y, sensitive_features=s, y_proba=p).found
    assert "40 rows have probability 0 for their true class" in found["notes"][0]
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(36.04, abs=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": None}, "y is missing"),
        ({"y_proba": None}, "nothing to audit"),
        ({"y_proba": [[0.5, 0.5]]}, "shape"),
        ({"y_proba": [2.0, 0.1, 0.2, 0.3]}, "outside 0 to 1"),
        ({"y_proba": [[0.5, 0.1]] * 4}, "do not add up to 1"),
        ({"y_proba": [np.nan, 0.1, 0.2, 0.3]}, "missing or not a number in 1 rows"),
        ({"y_pred": ["0", "1", "1", "9"]}, "no class in 1 rows"),
        ({"sensitive_features": ["a"] * 4}, "only one group"),
        ({"sensitive_features": ["a"]}, "one entry for each of the 4 rows"),
        ({"groups": ["a", "z"]}, "'z'"),
        ({"protected_class": "7"}, "choose one of 0, 1"),
    ],
)
def test_mistakes_in_python(change: dict[str, object], words: str) -> None:
    good: dict[str, object] = {
        "y": ["0", "1", "0", "1"], "sensitive_features": ["a", "a", "b", "b"],
        "y_proba": [0.1, 0.9, 0.2, 0.8],
    }  # fmt: skip
    with pytest.raises(FairSiloError, match=words):
        fairsilo.audit(**(good | change))  # type: ignore[arg-type]


def test_the_runs_own_rows_are_found_in_a_folder_and_by_its_split(
    case: Case, tmp_path: Path
) -> None:
    (tmp_path / "banks").mkdir()
    for name, part in case.frame.groupby("client"):
        part.drop(columns="client").to_csv(tmp_path / "banks" / f"{name}.csv", index=False)
    for options in (
        AuditOptions(data=str(tmp_path / "banks"), model=case.model),
        AuditOptions(data=case.table, model=case.model, split="part"),
        AuditOptions(data=case.table, model=case.model, clients=5),
    ):
        found = execute(options)
        assert (found["which"], found["unseen"]) == ("the test rows of the run", True)
        assert found["rows"] == 300
        assert found["silos"] == (options.clients or 3)
