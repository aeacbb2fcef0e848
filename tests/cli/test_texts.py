"""What the command line says, in words that a reader understands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fairsilo
from fairsilo.cli import program
from fairsilo.cli.show import _constraints
from fairsilo.fairness.words import spelled
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
    assert "female=0 - female=1" in metrics["certificate"]["rates"]["lines"][0]["name"]
    assert "not used: the table says who holds a row" in page
    # A file of the folder stands for the folder.
    model = ("--model", "run/model.safetensors", "--data", "banks/silo0.csv", "--out", "s.csv")
    assert quick("predict", *model).returncode == 0
    assert "is not an address" in quick(*TRAIN, "--data", "banks", "--mlflow", "notauri").stderr


def test_every_argument_and_option_is_explained() -> None:
    commands: list[Any] = [program()]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
        for one in command.params:
            assert one.help or one.hidden, f"{command.name} {one.name}"
    assert len(commands) > 30
    (quiet,) = (one for one in commands for one in one.params if one.name == "quiet")
    assert quiet.help == "Print where the results lie, and warnings."


def test_an_audit_says_what_it_found() -> None:
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 200), np.where(rng.random(200) < 0.5, "<f>", "m")
    found = fairsilo.audit(y=y, y_pred=1 - y, sensitive_features=s)
    assert repr(found).startswith("This model is hardly better than one answer for everybody")
    assert "Audit of model in Python: 200 rows of 1 silo, accuracy 0.0000" in repr(found)
    assert "the whole population is at most 8.2 points. No limit on rates was set" in repr(found)
    assert "&lt;f&gt;" in found._repr_html_()
    assert "<f>" not in found._repr_html_()


def test_of_many_constraints_the_worst_are_shown() -> None:
    each = [
        {"name": f"g{k} - h{k}", "epsilon": 0.05, "train": {"loss": 0.0, "rate": 0.0},
         "test": {"loss": None if k == 3 else k / 1000, "rate": 0.0}}
        for k in range(30)
    ]  # fmt: skip
    metrics = {"target_deo": None, "notion": "equal-opportunity", "constraints": each}
    shown = _constraints(metrics)
    assert shown.row_count == 20
    assert "20 of 30 constraints" in str(shown.title)
    assert next(iter(shown.columns[0].cells)) == "g29 - h29"
    metrics["constraints"] = each[:5]
    assert _constraints(metrics).row_count == 5


def test_what_gives_the_answers_away_stands_beside_the_certificate(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    copy = np.where(loans["label"].astype(str) == "1", "paid", "open")
    loans.rename(columns={"group": "female"}).assign(paid=copy).to_csv(
        tmp_path / "t.csv", index=False
    )
    done = quick(*TRAIN, "--data", "t.csv", "--client", "client", "--epsilon", "0.5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    [place] = [k for k, line in enumerate(lines) if line.startswith("certificate: ")]
    assert lines[place + 1].startswith("but column 'paid' alone predicts the label")
    assert done.stdout.count("alone predicts the label") == 1
    # With weights there is no certificate to stand beside.
    more = ("--client", "client", "--epsilon", "0.5", "--weight", "times")
    weighed = pd.read_csv(tmp_path / "t.csv").assign(times=[1 + k % 3 for k in range(len(loans))])
    weighed.to_csv(tmp_path / "w.csv", index=False)
    told = quick(*TRAIN, "--data", "w.csv", *more, "--out", "w").stdout
    assert "\nwarning: column 'paid' alone predicts the label" in told
    assert told.count("alone predicts the label") == 1
    for name in ("certificate.md", "card.md"):
        text = (tmp_path / "run" / name).read_text()
        assert text.splitlines()[2].startswith("**Given away.** Column 'paid' alone")


def test_an_audit_names_numbers_with_their_column(quick: Program, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"female": rng.integers(0, 2, 300), "good": rng.integers(0, 2, 300)})
    frame.assign(said=1 - frame["good"]).to_csv(tmp_path / "t.csv", index=False)
    told = ("--label", "good", "--group", "female", "--predictions", "said")
    done = quick("audit", "--data", "t.csv", *told, "--notion", "demographic-parity")
    assert done.returncode == 0, done.stderr
    assert "female=0 - female=1" in done.stdout
    assert "good=1" in done.stdout
    page = (tmp_path / "audit" / "audit.html").read_text()
    assert "female=0 \N{MINUS SIGN} female=1" in page
    for text in (done.stdout, page):
        assert "0 - 1" not in text
        assert "0 \N{MINUS SIGN} 1" not in text
    found = json.loads((tmp_path / "audit" / "audit.json").read_text())
    assert found["pairs"][0]["a"] == "0"
    assert found["rates"]["lines"][-1]["name"] == "female=0 - female=1 predicted good=1"
    audited = fairsilo.audit(
        y=frame["good"], y_pred=1 - frame["good"], sensitive_features=frame["female"]
    )
    assert "female=0 - female=1" in audited._repr_html_()
