"""What the command line says, in words that a reader understands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

import fairsilo
from fairsilo.report.text import spelled
from tests.cli.conftest import Program

TRAIN = (
    "train", "--label", "label", "--protected-class", "1", "--group", "female", "--out", "run",
)  # fmt: skip


def test_numbers_are_named_with_their_column(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    assert spelled("female", "0") == "female=0"
    assert spelled("sex", "Female") == "Female"
    frame = loans.assign(female=(loans["group"] == "g0").astype(int)).drop(columns="group")
    (tmp_path / "banks").mkdir()
    for name, rows in frame.groupby("client"):
        rows.drop(columns=["client", "part"]).to_csv(
            tmp_path / "banks" / f"{name}.csv", index=False
        )
    done = quick(*TRAIN, "--data", "banks", "--notion", "demographic-parity")
    assert done.returncode == 0, done.stderr
    assert "female=0 and female=1, predicted label=1" in " ".join(done.stdout.split())
    assert "fairness = 1 - difference of the shares predicted so" in " ".join(done.stdout.split())
    assert "s, of which training" in done.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for one in (metrics["test"], metrics["unconstrained"]["test"]):
        assert f"{1 - one['rate_gap']:.4f}" in done.stdout
    page = (tmp_path / "run" / "report.html").read_text()
    assert "female=0" in page
    assert "not used: the table says who holds a row" in page
    # A file of the folder stands for the folder.
    model = ("--model", "run/model.safetensors", "--data", "banks/silo0.csv", "--out", "s.csv")
    assert quick("predict", *model).returncode == 0
    assert "is not an address" in quick(*TRAIN, "--data", "banks", "--mlflow", "notauri").stderr


def test_an_audit_says_what_it_found() -> None:
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 200), np.where(rng.random(200) < 0.5, "<f>", "m")
    found = fairsilo.audit(y=y, y_pred=1 - y, sensitive_features=s)
    assert repr(found).startswith("Audit of model in Python: 200 rows of 1 silo, accuracy 0.0000")
    assert "the whole population is at most 8.2 points. No limit on rates was set" in repr(found)
    assert "&lt;f&gt;" in found._repr_html_()
    assert "<f>" not in found._repr_html_()
