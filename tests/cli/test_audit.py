"""`fairsilo audit` end to end: the folder it writes, and one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import fairsilo
from fairsilo.cli import app
from fairsilo.cli.flags import as_typed
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from tests.auditor.test_notion import banks
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


def test_a_false_certificate_does_not_let_a_pipeline_on(quick: Program, tmp_path: Path) -> None:
    """Demographic parity where each bank leaves its four rows of a/yes out: the gap is 0.4."""
    named = {"sex": "group", "said": "decision", "bank": "client"}
    frame = banks().rename(columns=named)
    frame.to_csv(tmp_path / "answers.csv", index=False)
    more: dict[str, str | None] = {
        "--protected-class": "yes", "--min-cell": "5", "--notion": "demographic-parity",
            "--target-deo": "0.1", "--fail-on": "uncertified"}  # fmt: skip
    done = quick(*words_of(more))
    assert done.returncode == 3, done.stdout
    assert "There is no certificate of the rates" in done.stdout
    assert "Without 200 cells" in " ".join(done.stdout.split())


def test_an_audit_that_goes_on_stops_by_all_its_rows(
    quick: Program, answers: pd.DataFrame, tmp_path: Path
) -> None:
    """The same table again is no new evidence, but for the program it is more rows."""
    shared = words_of({"--target-deo": "0.25", "--fail-on": "uncertified", "--draws": "100"})
    codes = [quick(*shared, "--append").returncode for _ in range(12)]
    assert (codes[0], codes[-1]) == (3, 0)
    assert codes == sorted(codes, reverse=True)
    done = quick(*shared, "--append")
    assert "Over 13 audits and 5,200 rows so far" in done.stdout
    losses: dict[str, str | None] = {
        "--epsilon": "0.5",
        "--fail-on": "uncertified",
        "--probability": "1=score",
    }
    refused = quick(*words_of(losses), "--append")
    assert refused.returncode == 2
    assert "give --target-deo, or leave out --append" in refused.stderr


def test_few_rows_have_no_interval_with_an_estimated_variance(
    quick: Program, answers: pd.DataFrame, tmp_path: Path
) -> None:
    """Nine rows of a group: Newcombe's interval alone, and the note sends to no other."""
    more = {"--probability": "1=score", "--protected-class": "1", "--client": None}
    short = answers[(answers["group"] != "g0") | (answers["label"].astype(str) != "1")]
    own = answers[(answers["group"] == "g0") & (answers["label"].astype(str) == "1")]
    pd.concat([short, own[:9]]).to_csv(tmp_path / "answers.csv", index=False)
    done = quick(*words_of(more))
    assert done.stdout.count("too few rows") == 6
    found = json.loads((tmp_path / "found" / "audit.json").read_text())
    (pair,) = found["pairs"]
    assert (pair["rows_a"], pair["rate_gap"]["pooled"]["newcombe"] is None) == (9, False)
    for one in (pair["loss_gap"]["pooled"], pair["loss_gap"]["mean"], pair["rate_gap"]["mean"]):
        assert one["value"] is not None
        assert (one["normal"], one["chebyshev"]) == (None, None)
    assert found["dgeo"]["pooled"]["normal"] is None
    (note,) = [one for one in found["notes"] if "only 9 rows" in one]
    assert "normal and Chebyshev's intervals are left out" in note


def test_a_model_that_finds_nobody_is_not_called_fair(answers: pd.DataFrame) -> None:
    answers.assign(decision="0").to_csv("answers.csv", index=False)
    done = CliRunner().invoke(app, words_of({}))
    assert done.exit_code == 0
    assert done.stdout.startswith("warning: this model is hardly better than one answer")
    found = json.loads(Path("found/audit.json").read_text())
    assert found["worth"]["useful"] is False
    assert "balanced accuracy is 0.500" in found["worth"]["why"]
    # Nobody of class 1 is recognised, in any silo: that is no certainty about others.
    of_silos = [one["rate_gap"]["mean"] for one in found["pairs"]]
    assert {one["value"] for one in of_silos} == {0.0}
    assert {str(one[kind]) for one in of_silos for kind in ("normal", "chebyshev")} == {"None"}
    assert "0.0000 to 0.0000" not in done.output
    assert "│ \N{EN DASH}  " in done.output
    assert "loss gap (DGEO)" not in done.output
    page = Path("found/audit.html").read_text()
    assert "<h1>This model is hardly better than one answer for everybody</h1>" in page
    assert page.index("This model is hardly better") < page.index("of class")
    audited = fairsilo.audit(
        y=answers["label"], y_pred=["0"] * len(answers), sensitive_features=answers["group"]
    )
    assert repr(audited).startswith("This model is hardly better than one answer for everybody")
    # A model that is of use is told nothing of the kind.
    CliRunner().invoke(app, words_of({"--predictions": "label"}))
    assert json.loads(Path("found/audit.json").read_text())["worth"]["why"] is None
    assert "hardly better" not in Path("found/audit.html").read_text()


def test_long_names_of_classes_are_whole(
    quick: Program, answers: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns two classes must not read alike."""
    named = answers.rename(columns={"label": "readmitted_within_thirty_days"})
    named.to_csv("answers.csv", index=False)
    monkeypatch.setenv("COLUMNS", "80")
    done = quick(*words_of({"--label": "readmitted_within_thirty_days"}))
    assert done.returncode == 0, done.stderr
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout
    assert "=0 " in done.stdout
    assert "=1 " in done.stdout
