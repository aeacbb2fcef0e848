"""`fairsilo data look` and `data schema`: what a table is taken for, before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.data.alike import alike, alike_in
from fairsilo.data.look import look_at
from fairsilo.data.schema import read_schema
from fairsilo.report.look import look_page
from tests.cli.conftest import Program
from tests.report.samples import HOSTILE


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """A table with the faults that real ones had."""
    rng = np.random.default_rng(0)
    rows = 400
    y = rng.random(rows) < 0.3
    frame = pd.DataFrame({
        "id": [f"P{k:05d}" for k in range(rows)],
        "opened": pd.date_range("2019-01-07", periods=rows, freq="3D").strftime("%Y-%m-%d"),
        "income": [f"{k // 1000},{k % 1000:03d}" for k in rng.integers(1000, 99000, rows)],
        "quota": [f"{k}%" for k in rng.integers(0, 100, rows)],
        "zip": [f"{k:05d}" for k in rng.integers(100, 140, rows)],
        "job": rng.integers(1, 9, rows),
        "fold": np.where(rng.random(rows) < 0.2, "test", "train"),
        "sex": rng.choice(["f", "m", ""], rows, p=[0.45, 0.45, 0.1]),
        "decision": np.where(y, "granted", "denied"),
        "bank": rng.choice(["north", "south"], rows),
        "good": np.where(y, "yes", "no"),
    })  # fmt: skip
    path = tmp_path / "loans.csv"
    frame.to_csv(path, index=False)
    return path


NAMES = ("--label", "good", "--group", "sex", "--client", "bank")


@pytest.mark.slow
def test_everything_is_said_at_once(quick: Program, messy: Path) -> None:
    done = quick("data", "look", "loans.csv", *NAMES, "--out", "look.html")
    assert done.returncode == 1
    assert "problem: column 'income' holds numbers with commas" in done.stdout
    assert "--thousands ','" in done.stdout
    done = quick("data", "look", "loans.csv", *NAMES, "--thousands", ",", "--out", "look.html")
    assert done.returncode == 0, done.stderr
    for words in (
        "look: column 'id' has 400 different texts", "'fold' says which rows are for testing",
        "--split fold", "--category job", "column 'decision' alone predicts the label",
        "this table can be trained on", "(none)", "date",
    ):  # fmt: skip
        assert words in done.stdout, words
    assert "same as group" not in done.stdout
    assert " predicts " in next(one for one in done.stdout.splitlines() if "│ decision" in one)
    page = (messy.parent / "look.html").read_text()
    assert "can be trained" in page
    assert "predicts the label</td>" in page
    assert "--split fold" in page


@pytest.mark.slow
def test_a_draft_of_a_refused_table_is_one_to_correct(quick: Program, messy: Path) -> None:
    assert "name one table" in quick("data", "schema", *NAMES).stderr
    assert "--data " not in quick("data", "schema", "--help").stdout
    done = quick("data", "schema", "loans.csv", *NAMES, "--out", "s.json")
    assert done.returncode == 0, done.stderr
    assert "'income' holds numbers with commas" in done.stderr
    draft = json.loads((messy.parent / "s.json").read_text())
    assert "income" not in [one["name"] for one in draft["features"]]
    draft["features"].insert(0, {"kind": "number", "name": "income"})
    (messy.parent / "s.json").write_text(json.dumps(draft))
    assert read_schema(messy.parent / "s.json").numbers[0] == "income"
    train = ("train", "--data", "loans.csv", *NAMES, "--protected-class", "yes", "--out", "run")
    more = ("--schema", "s.json", "--thousands", ",", "--no-baseline")
    done = quick(*train, *more)
    assert done.returncode == 0, done.stderr
    done = quick("predict", "--model", "run", "--data", "loans.csv", "--out", "scores.csv")
    assert done.returncode == 0, done.stderr


def test_hostile_names_stay_text() -> None:
    frame = pd.DataFrame(
        {HOSTILE[0]: ["a", "b"] * 4, "y": [HOSTILE[1], "n"] * 4, "g": ["u", "v"] * 4}
    )
    page = look_page(HOSTILE[2], look_at(frame, label="y", group=["g"]))
    assert "<script>window" not in page
    assert "<img" not in page


def test_a_draft_goes_with_the_options_that_it_was_made_with(quick: Program, messy: Path) -> None:
    frame = pd.read_csv(messy, dtype={"zip": str})
    frame["land"] = np.where(np.arange(len(frame)) % 3 == 0, "a", "b")
    frame["weight"] = 1.0 + np.arange(len(frame)) % 4
    frame.to_csv(messy, index=False)
    names = ("--label", "good", "--group", "sex,land", "--client", "bank", "--weight", "weight")
    told = (*names, "--features", "quota,job,weight,land")
    refused = quick("data", "look", "loans.csv", *told)
    assert "column 'weight' is in --features and is no feature" in refused.stderr
    told = (*names, "--features", "quota,job,land")
    done = quick("data", "look", "loans.csv", *told)
    assert done.returncode == 0, done.stderr
    assert "income" not in done.stdout.split("look: ")[-1]
    assert done.stdout.count("left out, as") >= 3
    refused = quick("data", "look", "loans.csv", *told, "--groupless", "refuse")
    assert refused.returncode == 1
    assert "'sex' is empty in" in refused.stdout
    done = quick("data", "schema", "loans.csv", *told, "--drop-group", "--out", "s.json")
    assert done.returncode == 0, done.stderr
    draft = read_schema(messy.parent / "s.json")
    assert draft.columns == ("quota", "job")
    assert draft.group_columns == ("sex", "land")
    train = ("train", "--data", "loans.csv", *names, "--protected-class", "yes", "--out", "run")
    done = quick(*train, "--schema", "s.json", "--no-baseline")
    assert done.returncode == 0, done.stderr


def test_names_that_differ_in_blanks_or_case_are_said(quick: Program, messy: Path) -> None:
    frame = pd.read_csv(messy, dtype={"zip": str}).drop(columns=["income", "decision", "fold"])
    assert not [*alike(frame, ("good", "sex", "bank", None))]
    frame.loc[::9, "sex"] = "m "
    frame.loc[::7, "bank"] = "North"
    frame.loc[::5, "good"] = "NO"
    frame.to_csv(messy, index=False)
    told = [
        "column 'good': the values 'NO' and 'no' differ only in blanks or case: if they are the "
        "same, make them alike in the table",
        "column 'sex': the values 'm' and 'm ' differ only in blanks or case: if they are the "
        "same, make them alike in the table",
        "column 'bank': the values 'North' and 'north' differ only in blanks or case: if they are "
        "the same, make them alike in the table",
    ]
    look = " ".join(quick("data", "look", "loans.csv", *NAMES).stdout.split())
    assert all(one in look for one in told)
    train = ("train", "--data", "loans.csv", *NAMES, "--protected-class", "yes", "--pool", "0")
    done = quick(*train, "--drop", "id,opened", "--out", "run", "--no-baseline", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    notes = json.loads((messy.parent / "run" / "metrics.json").read_text())["notes"]
    assert [one for one in notes if "blanks or case" in one] == told


def test_many_such_names_are_not_all_shown() -> None:
    [words] = alike_in("clients", [f"{one}{k}" for k in range(5) for one in ("a", "A", " a")])
    assert words.startswith("clients: the values ' a0', 'A0' and 'a0'; ' a1', ")
    assert "'a2'; and 2 more differ only in blanks or case" in words
    assert not [*alike_in("clients", ["a b", "ab", "a-b"])]


def test_wrong_weights_are_a_problem(quick: Program, messy: Path) -> None:
    told = (*NAMES, "--thousands", ",", "--weight", "id")
    assert "the weight in column 'id' is" in quick("data", "look", "loans.csv", *told).stdout
