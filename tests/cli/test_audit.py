"""`fairsilo audit` end to end: the folder it writes, and one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.cli.flags import as_typed
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from tests.cli.conftest import Program

GOOD = {
    "--data": "answers.csv", "--predictions": "decision", "--label": "label", "--group": "group",
    "--client": "client", "--out": "found",
}  # fmt: skip


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table with a model's answers, written as answers.csv in the current folder."""
    frame = make_table(400, silos=4, seed=1)
    frame["decision"] = ["1" if x > 0 else "0" for x in frame["x0"]]
    frame["score"] = frame["x0"].rank(pct=True)
    frame.to_csv(tmp_path / "answers.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return frame


def words_of(change: dict[str, str | None]) -> list[str]:
    options = {**GOOD, **change}
    return ["audit", *(word for k, v in options.items() if v is not None for word in (k, v))]


def test_a_column_of_predictions(fairsilo: Program, answers: pd.DataFrame, tmp_path: Path) -> None:
    done = fairsilo(*words_of({"--probability": "1=score"}), COLUMNS="100")
    assert done.returncode == 0, done.stderr
    for text in ("rate gap (DEO)", "loss gap (DGEO)", "Newcombe", "bootstrap", "Chebyshev"):
        assert text in done.stdout
    assert "provided the model never saw them" in done.stdout
    found = json.loads((tmp_path / "found" / "audit.json").read_text())
    assert found["rows"] == 400
    assert found["silos"] == 4
    assert (tmp_path / "found" / "audit.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--data": "nowhere.csv"}, "nowhere.csv"),
        ({"--predictions": "decisoin"}, "did you mean 'decision'"),
        ({"--predictions": "x0"}, "holds a value that is no class"),
        ({"--predictions": "holes"}, "is empty in 1 rows"),
        ({"--predictions": None}, "there is nothing to audit"),
        ({"--model": "run"}, "not both"),
        ({"--predictions": None, "--model": "nowhere"}, "does not exist"),
        ({"--predictions": None, "--model": "answers.csv"}, "neither a run folder nor an .onnx"),
        ({"--predictions": None, "--model": "model.pkl"}, "can run any program"),
        ({"--predictions": None, "--model": "empty"}, "give the folder that `fairsilo train"),
        ({"--probability": "score"}, "does not say of which class"),
        ({"--probability": "x0", "--protected-class": "1"}, "outside 0 to 1"),
        ({"--probability": "group", "--protected-class": "1"}, "must hold numbers"),
        ({"--label": None}, "--label is missing"),
        ({"--group": None}, "--group is missing"),
        ({"--group": "label"}, "both 'label'"),
        ({"--label": "lable"}, "did you mean 'label'"),
        ({"--groups": "g0"}, "at least two"),
        ({"--groups": "g0,g7"}, "g7"),
        ({"--protected-class": "5"}, "choose one of 0, 1"),
        ({"--client": "bank"}, "bank"),
        ({"--clients": "3"}, "not both"),
        ({"--client": None, "--clients": "0"}, "--clients"),
        ({"--client": None, "--clients": "100000"}, "100000"),
        ({"--split": "group"}, "only train and test are allowed"),
        ({"--rows": "test"}, "give --split COLUMN"),
        ({"--rows": "some"}, "--rows"),
        ({"--level": "95"}, "--level"),
        ({"--min-cell": "-1"}, "--min-cell"),
        ({"--draws": "3"}, "--draws"),
        ({"--seed": "-1"}, "--seed"),
        ({"--epsilon": "nan"}, "--epsilon"),
        ({"--variant": "onehot"}, "--variant"),
        ({"--data": "adult"}, "--label does not go with the data set"),
        ({"--data": "."}, "one file per client"),
        ({"--out": "answers.csv"}, "is a file"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_written(
    answers: pd.DataFrame, tmp_path: Path, change: dict[str, str | None], words: str
) -> None:
    holes = answers["decision"].where(answers.index > 0)
    answers.assign(holes=holes).to_csv(tmp_path / "answers.csv", index=False)
    (tmp_path / "model.pkl").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, words_of(change))
    assert isinstance(done.exception, FairSiloError), done.output
    assert words in as_typed(str(done.exception))
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "found").exists()
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"--target-deo": "0.001", "--fail-on": "missed"}, 3, "the audit is missed"),
        ({"--target-deo": "0.9", "--fail-on": "missed,uncertified"}, 0, ""),
        ({"--target-deo": "0.15", "--fail-on": "uncertified"}, 3, "the audit is uncertified"),
        ({"--fail-on": "missed"}, 2, "--fail-on needs a limit"),
        ({"--fail-on": "collapsed"}, 2, "choose from missed, uncertified"),
    ],
)
def test_what_stops_a_pipeline(
    quick: Program, answers: pd.DataFrame, more: dict[str, str], code: int, said: str
) -> None:
    done = quick(*words_of({"--notion": "demographic-parity", **more}))
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    if code != 2:
        assert "demographic-parity" in done.stdout
