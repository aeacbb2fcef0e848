"""Bad input: one sentence, a non-zero exit, no traceback, nothing half-written."""

from __future__ import annotations

import errno
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.errors import FairSiloError
from fairsilo.run.store import load
from tests.cli.conftest import Program

GOOD = {
    "--data": "loans.csv", "--label": "label", "--protected-class": "1", "--group": "group",
    "--client": "client", "--split": "part", "--out": "run",
}  # fmt: skip


def train(fairsilo: Program, change: dict[str, str | None]) -> str:
    """Run with the changed options, and return the one sentence."""
    options = {**GOOD, **change}
    words = [word for k, v in options.items() if v is not None for word in (k, v)]
    done = fairsilo("train", *words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    sentences = done.stderr.strip().splitlines()
    assert len(sentences) == 1, done.stderr
    return sentences[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--data": "nowhere.csv"}, "nowhere.csv"),
        ({"--data": "empty.csv"}, "empty.csv"),
        ({"--data": "binary.csv"}, "binary.csv"),
        ({"--data": "headers.csv"}, "headers.csv"),
        ({"--label": "lable"}, "did you mean 'label'"),
        ({"--group": "grp"}, "grp"),
        ({"--client": "bank"}, "bank"),
        ({"--split": "fold"}, "fold"),
        ({"--protected-class": "7"}, "choose one of 0, 1"),
        ({"--groups": "g0,g9"}, "g9"),
        ({"--groups": "g0"}, "at least two"),
        ({"--groups": "g0,g1,g0"}, "names 'g0' twice"),
        ({"--groups": ""}, "--groups '' is not a value"),
        ({"--groups": 'g0,"g1'}, "close the double quotes"),
        ({"--data": "stray.csv"}, "column 'x0' holds numbers but also the text '?'"),
        ({"--data": "apart.csv", "--method": "lco"},
         "use --method fedfair with --estimator pooled"),
        ({"--seed": "99999999999999999999"}, "--seed"),
        ({"--seed": "-1"}, "--seed"),
        ({"--variant": "onehot"}, "--variant"),
        ({"--partition": "skewed"}, "--partition"),
        ({"--client": None, "--clients": "3", "--alpha": "0.1"}, "--alpha"),
        ({"--data": "folder", "--client": None, "--partition": "skewed"}, "--partition"),
        ({"--out": "loans.csv"}, "loans.csv is a file"),
        ({"--out": "loans.csv/deep/run"}, "loans.csv is a file"),
        ({"--out": "x" * 300}, "--out"),
        ({"--data": "oneclass.csv"}, "label"),
        ({"--data": "onegroup.csv"}, "group"),
        ({"--data": "notrain.csv"}, "no train rows"),
        ({"--data": "infinite.csv"}, "x0"),
        ({"--data": "noclient.csv"}, "client"),
        ({"--client": None, "--split": None}, "--client"),
        ({"--epsilon": "-0.1"}, "--epsilon"),
        ({"--epsilon": "nan"}, "--epsilon"),
        ({"--after": "lco"}, "--after is for methods that repair a trained model"),
        ({"--method": "eo", "--after": "ceo"}, "--after 'ceo' is unknown"),
        ({"--epsilon": "0.1", "--target-deo": "0.02"}, "not both"),
        ({"--label": "group"}, "label and group"),
        ({"--method": "fedfare"}, "perhaps 'fedfair'"),
        ({"--solver": "sgd"}, "--solver"),
        ({"--model": "tree"}, "--model"),
        ({"--estimator": "local"}, "--estimator"),
        ({"--rounds": "0"}, "--rounds"),
        ({"--clients": "3"}, "not both"),
        ({"--client": None, "--clients": "100000"}, "100000"),
        ({"--data": "emptycell.csv"}, "no training row of class"),
        ({"--data": "compas", "--label": None, "--group": None, "--client": None, "--split": None},
         "fairsilo data get compas"),
        ({"--data": "adult"}, "--label"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_written(
    quick: Program,
    loans: pd.DataFrame,
    tmp_path: Path,
    change: dict[str, str | None],
    words: str,
) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 40)
    loans.head(0).to_csv(tmp_path / "headers.csv", index=False)
    loans.assign(label="1").to_csv(tmp_path / "oneclass.csv", index=False)
    loans.assign(group="g0").to_csv(tmp_path / "onegroup.csv", index=False)
    loans.assign(part="test").to_csv(tmp_path / "notrain.csv", index=False)
    loans.assign(x0=[float("inf"), *loans["x0"][1:]]).to_csv(tmp_path / "infinite.csv", index=False)
    loans.assign(client=loans["client"].where(loans.index > 0)).to_csv(
        tmp_path / "noclient.csv", index=False
    )
    stray = [*loans["x0"].astype(str)[1:], "?"]
    loans.assign(x0=stray).to_csv(tmp_path / "stray.csv", index=False)
    loans.assign(client=loans["group"]).to_csv(tmp_path / "apart.csv", index=False)
    (tmp_path / "folder").mkdir()
    loans.drop(columns="client").to_csv(tmp_path / "folder" / "one.csv", index=False)
    hidden = (loans["group"] == "g0") & (loans["label"].astype(str) == "1")
    loans.assign(part=loans["part"].where(~hidden, "test")).to_csv(
        tmp_path / "emptycell.csv", index=False
    )
    assert words in train(quick, change)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_old_run_survives_a_failed_one(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    good = [word for pair in GOOD.items() for word in pair]
    assert quick("train", *good).returncode == 0
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    train(quick, {"--epsilon": "nan"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before


@pytest.mark.slow
def test_predict_mistakes(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    for words, hint in (
        (("--model", "nowhere", "--data", "loans.csv", "--out", "s.csv"), "nowhere"),
        (("--model", "run", "--data", "short.csv", "--out", "s.csv"), "x0"),
        (("--model", "run", "--data", "loans.csv", "--out", "s.xlsx"), ".csv or .parquet"),
        (("--model", "run", "--data", "loans.csv", "--out", "loans.csv/s.csv"), "is a file"),
        (("--model", "nowhere", "--data", "loans.csv", "--out", "loans.csv/s.csv"), "is a file"),
    ):
        if hint == "x0":
            good = [word for pair in GOOD.items() for word in pair]
            assert quick("train", *good, "--no-baseline").returncode == 0
            loans.drop(columns="x0").to_csv(tmp_path / "short.csv", index=False)
        done = quick("predict", *words)
        assert done.returncode == 2
        assert hint in done.stderr
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("s.*"))


def test_predict_from_a_damaged_run(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    good = [word for pair in GOOD.items() for word in pair]
    assert quick("train", *good, "--no-baseline").returncode == 0
    run, scores = tmp_path / "run", tmp_path / "s.csv"
    assert "--seed" in predict(quick, "--seed", "-1")
    tensors = (run / "model.safetensors").read_bytes()
    for theta in (np.zeros((1, 3)), np.zeros(3), np.zeros((0, 3))):
        (run / "model.safetensors").write_bytes(save({"theta": theta}))
        with pytest.raises(FairSiloError, match="does not hold the model"):
            load(run)
    (run / "model.safetensors").write_bytes(tensors)
    load(run)
    described = json.loads((run / "model.json").read_text())
    for key in ("model", "encoder", "schema"):
        broken = {name: value for name, value in described.items() if name != key}
        (run / "model.json").write_text(json.dumps(broken))
        with pytest.raises(FairSiloError, match=r"model\.json is damaged"):
            load(run)
    assert "model.json is damaged" in predict(quick)
    assert not scores.exists()


def predict(quick: Program, *more: str) -> str:
    """Score with the run, which must fail, and return the one sentence."""
    done = quick("predict", "--model", "run", "--data", "loans.csv", "--out", "s.csv", *more)
    assert done.returncode == 2
    [sentence] = done.stderr.strip().splitlines()
    return sentence


def test_a_group_with_a_comma_or_the_name_na(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    names = loans["group"].map({"g0": "NA", "g1": "low, high"})
    loans.assign(group=names).to_csv(tmp_path / "loans.csv", index=False)
    good = [word for pair in GOOD.items() for word in pair]
    done = quick("train", *good, "--no-baseline", "--groups", 'NA, "low, high"')
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run" / "model.json").read_text())
    assert metrics["groups"] == ["NA", "low, high"]
    assert "double quotes" in train(quick, {"--groups": "NA,low, high"})


def test_out_is_tried_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(dir: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    train = ["train", "--data", "nowhere.csv", "--out"]
    out = tmp_path / "deep" / "run"
    done = CliRunner().invoke(app, [*train, str(out)])
    assert "is missing" in str(done.exception)
    assert not list(tmp_path.iterdir())
    # root may write everywhere, so the system's answer is faked.
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    done = CliRunner().invoke(app, [*train, str(out)])
    assert isinstance(done.exception, FairSiloError)
    assert f"--out {out} cannot be written (Permission denied)" in str(done.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_out_in_a_place_where_nothing_can_be_made() -> None:
    done = CliRunner().invoke(app, ["train", "--data", "nowhere.csv", "--out", "/proc/nope"])
    assert isinstance(done.exception, FairSiloError)
    assert "--out /proc/nope cannot be written" in str(done.exception)


def test_data_commands(quick: Program, fairsilo: Program) -> None:
    listed = quick("data", "list")
    assert "45,222" in listed.stdout
    assert "5,278" in listed.stdout
    checked = quick("data", "check", "adult")
    assert checked.returncode == 0
    assert "45,222" in checked.stdout
    assert quick("data", "check", "compas").returncode == 1
    offline = fairsilo("data", "get", "compas", "--url", "http://127.0.0.1:9/compas.csv")
    assert offline.returncode == 2
    assert len(offline.stderr.strip().splitlines()) == 1


def test_help_names_every_option(fairsilo: Program) -> None:
    shown = fairsilo("train", "--help", COLUMNS="200").stdout
    for option in (
        "--data", "--label", "--protected-class", "--group", "--groups", "--client", "--clients",
        "--partition", "--split", "--test-fraction", "--seed", "--method", "--solver",
        "--estimator", "--model", "--rounds", "--epsilon", "--out", "--drop-group", "--data-dir",
    ):  # fmt: skip
        assert option in shown
