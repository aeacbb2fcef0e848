"""For programs that call the program: JSON, silence, exit codes, kept ids."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Program

TRAIN = (
    "train", "--data", "loans.csv", "--label", "label", "--protected-class", "1",
    "--group", "group", "--client", "client", "--split", "part", "--out", "run", "--no-baseline",
)  # fmt: skip


def test_json_and_silence(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    done = quick(*TRAIN, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "run" / "metrics.json").read_text())
    done = quick(*TRAIN, "--quiet")
    assert done.stdout == "run\n"
    assert "fairsilo: warning: the model sees the group (group); --drop-group" in done.stderr
    assert "sees the group" not in quick(*TRAIN, "--quiet", "--drop-group").stderr
    loans.assign(id=[f"P{k}" for k in range(len(loans))]).to_csv(tmp_path / "new.csv", index=False)
    predict = ("predict", "--model", "run", "--data", "new.csv", "--out", "s.csv")
    assert quick(*predict, "--keep", "id,client").returncode == 0
    scores = pd.read_csv(tmp_path / "s.csv")
    assert scores.columns.tolist()[:3] == ["id", "client", "predicted"]
    assert scores["id"].tolist() == [f"P{k}" for k in range(len(loans))]
    assert "no column 'ids'" in quick(*predict, "--keep", "ids").stderr


def test_explain_keeps_ids_and_says_what_is_new_as_predict_does(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    assert quick(*TRAIN, "--rounds", "1", "--quiet").returncode == 0
    new = loans.assign(id=range(len(loans)), c0=loans["c0"].where(loans.index > 10, "new"))
    new.to_csv(tmp_path / "new.csv", index=False)
    both = (("--model", "run", "--data", "new.csv", "--out", f"{one}.csv") for one in "pe")
    done = quick("predict", *next(both))
    explained = quick("explain", *(told := next(both)), "--keep", "id,client")
    assert explained.returncode == 0, explained.stderr
    assert explained.stderr == done.stderr
    assert "column 'c0' has 11 values that training never saw" in explained.stderr
    terms = pd.read_csv(tmp_path / "e.csv")
    assert terms.columns.tolist()[:3] == ["id", "client", "intercept"]
    assert terms["id"].tolist() == new["id"].tolist()
    assert "no column 'ids'" in quick("explain", *told, "--keep", "ids").stderr
    assert "--keep names 'x0', and a column of" in quick("explain", *told, "--keep", "x0").stderr


@pytest.mark.parametrize("how", ["--quiet", "--json"])
def test_silence_hides_no_copy_of_the_group_and_no_limit_that_idles(
    quick: Program, loans: pd.DataFrame, tmp_path: Path, how: str
) -> None:
    loans.assign(sex=loans["group"] + "!").to_csv(tmp_path / "loans.csv", index=False)
    said = quick(*TRAIN, how, "--epsilon", "9").stderr
    assert "warning: no limit binds" in said
    assert "warning: column 'sex' says the same as the group, column 'group'" in said
    assert "--drop sex" in said


@pytest.mark.parametrize("how", ["--quiet", "--json"])
def test_silence_hides_no_warning(
    quick: Program, loans: pd.DataFrame, tmp_path: Path, how: str
) -> None:
    copy = loans["label"].map({"0": "open", "1": "paid"})
    loans.assign(paid=copy).to_csv(tmp_path / "loans.csv", index=False)
    done = quick(*TRAIN, how, "--decide-at", "0.9999", "--rounds", "1")
    assert done.returncode == 0
    assert "warning" not in done.stdout
    assert done.stdout.startswith("run\n" if how == "--quiet" else "{")
    for words in (
        "fairsilo: warning: this model is hardly better", "--drop paid", "column 'paid' alone",
        "rounds reached",
    ):  # fmt: skip
        assert words in done.stderr


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--fail-on", "missed,not-converged,collapsed"), 0, ""),
        (("--fail-on", "not-converged", "--rounds", "1"), 3, "the run is not-converged"),
        (("--fail-on", "missed", "--rounds", "1"), 0, ""),
        (("--fail-on", "collapsed", "--decide-at", "0.999"), 3, "the run is collapsed"),
        (("--fail-on", "sad"), 2, "choose from missed"),
    ],
)
def test_what_fails_a_pipeline(
    quick: Program,
    loans: pd.DataFrame,
    tmp_path: Path,
    more: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    done = quick(*TRAIN, *more)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert (tmp_path / "run" / "report.html").exists() == (code != 2)
