"""Other packages add methods, notions, models and data sets by entry points, and only that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.registry import Registry

PARTS = '''
from dataclasses import replace

from fairsilo.data.adult import ADULT
from fairsilo.fairness import Gap, Notion
from fairsilo.method.fedfair import fedfair
from fairsilo.model import logistic_regression


def refused(compared, protected, classes):
    """The classes that are not protected."""
    rest = tuple(c for c in range(classes) if c not in protected)
    return tuple(Gap(a, b, rest) for a, b in compared)


def train(problem, engine, watch=None):
    trained = fedfair.train(problem, engine, watch)
    return replace(trained, notes=("trained by another package",))


METHOD = replace(fedfair, name="careful", words="Careful: a method of another package", train=train)
NOTION = Notion("predictive-equality", "the refused are refused alike", refused)
DATA = replace(ADULT, name="census", title="ADULT by another name")


def model(features, classes):
    return replace(logistic_regression(features, classes), name="plain")
'''
POINTS = """
[fairsilo.methods]
careful = others:METHOD

[fairsilo.notions]
predictive-equality = others:NOTION
broken = others:nothing

[fairsilo.models]
plain = others:model

[fairsilo.datasets]
census = others:DATA
"""


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A folder with a package as pip would install it."""
    info = tmp_path / "site" / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (info.parent / "others.py").write_text(PARTS)
    return info.parent


def program(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`fairsilo ARGS` where the other package is installed."""
    return subprocess.run(
        [sys.executable, "-c", "from fairsilo.cli import main; main()", *args],
        cwd=site.parent,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_the_program_trains_with_what_another_package_has(others: Path) -> None:
    table = make_table(400, silos=4, seed=1, bias=1.5)
    table.to_csv(others.parent / "loans.csv", index=False)
    told = "train --data loans.csv --label label --protected-class 1 --group group --client client"
    names = "--method careful --notion predictive-equality --model plain --out run"
    done = program(others, *told.split(), *names.split())
    assert done.returncode == 0, done.stderr
    run = others.parent / "run"
    metrics = json.loads((run / "metrics.json").read_text())
    assert (metrics["method"], metrics["model"]) == ("careful", "plain")
    assert metrics["notion"] == "predictive-equality"
    assert metrics["notes"] == ["trained by another package"]
    assert metrics["constraints"][0]["name"] == "g0 - g1 in 0"
    assert abs(metrics["train"]["dgeo_pooled"]) <= 0.05 + 1e-4
    # What is known of them, reports say.
    card = (run / "card.md").read_text()
    assert "Careful: a method of another package." in card
    assert "Aim: the refused are refused alike." in card
    assert "the refused are refused alike" in (run / "report.html").read_text()
    scored = program(
        others, "predict", "--model", "run", "--data", "loans.csv", "--out", "scores.csv"
    )
    assert scored.returncode == 0, scored.stderr


@pytest.mark.slow
def test_data_sets_of_other_packages_are_listed(others: Path) -> None:
    listed = program(others, "data", "list")
    assert listed.returncode == 0, listed.stderr
    assert "census: ADULT by another name" in listed.stdout


def test_a_run_is_read_where_its_method_is_not_installed(others: Path) -> None:
    """What it was trained by is a name then, and no more."""
    from fairsilo.report import card, card_markdown
    from tests.report.samples import sample

    run = sample(method="careful")
    run.metrics["notion"] = "predictive-equality"
    text = card_markdown(card(run.description, run.metrics))
    assert "trained by fairsilo 0.1.0. careful." in text
    assert "Aim: predictive-equality." in text


@pytest.mark.slow
def test_a_part_that_cannot_be_loaded_is_named(others: Path) -> None:
    told = "train --data adult --notion broken --clients 5"
    done = program(others, *told.split())
    assert done.returncode == 2
    assert "the notion 'broken' of others:nothing cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def test_own_names_stay_as_they_are(others: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(others)
    known: Registry[object] = Registry("notion", "fairsilo.notions", {"predictive-equality": 1})
    assert list(known) == ["predictive-equality", "broken"]
    assert known["predictive-equality"] == 1
    assert len(known) == 2
    assert "unheard-of" not in known
    with pytest.raises(FairSiloError, match="there is a notion 'predictive-equality' already"):
        known.add("predictive-equality", 2)
    known.add("another", 3)
    assert list(known) == ["predictive-equality", "another", "broken"]
