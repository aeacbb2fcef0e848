"""A run is made again, and it is said whether the model is the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd

from fairsilo import FedFairClassifier
from tests.cli.conftest import Program

TRAIN = (
    "train", "--data", "loans.csv", "--label", "label", "--protected-class", "1", "--group",
    "group", "--client", "client", "--out", "run", "--no-baseline", "--seed", "3", "--epsilon",
    "0.02,g0:g1=0.03", "--decide-at", "f1",
)  # fmt: skip


def test_a_run_is_made_again(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    loans.drop(columns="part").to_csv(tmp_path / "loans.csv", index=False)
    assert quick(*TRAIN, "--drop", "x1").returncode == 0
    made = json.loads((tmp_path / "run" / "model.json").read_text())["made"]
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert made["model_sha256"] == hashlib.sha256(model).hexdigest()
    assert f"`{made['command']}`" in (tmp_path / "run/card.md").read_text()
    assert "--seed 3" in made["command"]
    assert f"SHA-256 of the data: `{made['data_sha256']}`" in (tmp_path / "run/card.md").read_text()
    done = quick("rerun", "run")
    assert done.returncode == 0, done.stderr
    assert "the same model as run, to the last bit" in done.stdout
    (tmp_path / "run" / "model.json").read_text()
    loans.drop(columns="part").iloc[1:].to_csv(tmp_path / "other.csv", index=False)
    done = quick("rerun", "run", "--data", "other.csv")
    assert done.returncode == 1
    assert "their digest differs" in done.stdout
    assert "another model than run" in done.stdout


def test_a_run_made_in_python_names_no_rows(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    rows, held = loans[["x0", "x1"]], {"sensitive_features": loans["group"]}
    clf = FedFairClassifier(0.1).fit(rows, loans["label"], **held)
    clf.to_run(tmp_path / "python", rows, loans["label"], **held)
    for more in ((), ("--data", "loans.csv")):
        done = quick("rerun", "python", *more)
        assert done.returncode == 2
        assert "python was made in Python, where its rows have no name" in done.stderr


def test_a_schema_is_kept(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    loans.drop(columns="part").to_csv(tmp_path / "loans.csv", index=False)
    names = ("--data", "loans.csv", "--label", "label", "--group", "group", "--client", "client")
    assert quick("data", "schema", *names, "--drop", "x0", "--out", "s.json").returncode == 0
    assert quick(*TRAIN, "--schema", "s.json").returncode == 0
    (tmp_path / "s.json").unlink()
    assert quick("rerun", "run").returncode == 0


def test_a_run_from_an_earlier_model_needs_that_model(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    loans.drop(columns="part").to_csv(tmp_path / "loans.csv", index=False)
    assert quick(*TRAIN).returncode == 0
    later = [*TRAIN, "--start-from", "run"]
    later[later.index("--out") + 1] = "later"
    assert quick(*later).returncode == 0
    done = quick("rerun", "later")
    assert done.returncode == 2
    assert "give as --start-from the run folder" in done.stderr.replace("\n", " ")
    assert quick("rerun", "later", "--start-from", "run").returncode == 0
