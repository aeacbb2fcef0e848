"""`fairsilo train` and `predict` end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.run import load
from tests.cli.conftest import Program

OWN = (
    "train", "--data", "loans.csv", "--label", "label", "--protected-class", "1",
    "--group", "group", "--client", "client", "--split", "part", "--epsilon", "0.05",
    "--out", "run",
)  # fmt: skip
KEYS = {
    "method", "solver", "model", "estimator", "epsilon", "clients", "rounds", "converged", "reason",
    "train.loss", "train.dgeo_mean", "train.dgeo_pooled",
    "test.accuracy", "test.balanced_accuracy", "test.deo", "test.fairness", "test.harmonic_mean",
    "test.dgeo_pooled", "constant.accuracy", "constant.fairness", "constant.harmonic_mean",
    "bytes_up", "bytes_down", "seconds",
}  # fmt: skip


def value(metrics: dict[str, object], key: str) -> object:
    found: object = metrics
    for part in key.split("."):
        assert isinstance(found, dict)
        found = found[part]
    return found


def test_own_table_leaves_the_promised_folder(
    fairsilo: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    done = fairsilo(*OWN)
    assert done.returncode == 0, done.stderr
    assert "run folder: run" in done.stdout
    assert "unconstrained" in done.stdout
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "model.safetensors", "model.json", "metrics.json", "history.parquet", "report.html",
        "card.md", "certificate.md",
    }  # fmt: skip
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for key in KEYS:
        value(metrics, key)
    assert metrics["clients"] == 4
    assert metrics["converged"]
    assert metrics["train"]["dgeo_pooled"] <= 0.05 + 1e-6
    history = pd.read_parquet(tmp_path / "run" / "history.parquet")
    assert len(history) == metrics["rounds"]
    assert history["bytes_up"].sum() == metrics["bytes_up"]
    assert {"loss", "d_1", "mu_1", "step", "bytes_down"} <= set(history)
    description = json.loads((tmp_path / "run" / "model.json").read_text())
    features = {column["name"] for column in description["schema"]["features"]}
    assert features.isdisjoint({"label", "client", "part"})
    assert "group" in features


def test_predict_equals_the_model_in_memory(
    quick: Program, fairsilo: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    assert quick(*OWN).returncode == 0
    done = fairsilo("predict", "--model", "run", "--data", "loans.csv", "--out", "scores.parquet")
    assert done.returncode == 0, done.stderr
    scores = pd.read_parquet(tmp_path / "scores.parquet")
    saved = load(tmp_path / "run")
    x = saved.encoder.transform(pd.read_csv(tmp_path / "loans.csv"))
    want = saved.predictors[0].probabilities(x, np.zeros(len(x), dtype=np.int64))
    np.testing.assert_allclose(scores["probability 1"].to_numpy(), want[:, 1], rtol=1e-12)
    assert set(scores["predicted"]) <= {"0", "1"}


def test_a_folder_with_one_file_per_client(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "banks").mkdir()
    for name, part in loans.groupby("client"):
        part.drop(columns="client").to_parquet(tmp_path / "banks" / f"{name}.parquet")
    done = quick(
        "train", "--data", "banks", "--label", "label", "--protected-class", "1",
        "--group", "group", "--split", "part", "--epsilon", "0.05", "--out", "folder",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert quick(*OWN).returncode == 0
    one, other = (load(tmp_path / name) for name in ("folder", "run"))
    assert one.description["client_names"] == other.description["client_names"]
    assert one.metrics["train"]["loss"] == pytest.approx(other.metrics["train"]["loss"], abs=1e-12)


@pytest.mark.slow
def test_every_solver_model_and_engine_says_how_it_ended(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    for extra in (
        ("--solver", "agp", "--rounds", "50"),
        ("--solver", "lbfgs", "--estimator", "mean"),
        ("--model", "mlp", "--rounds", "5"),
        ("--engine", "clientwise", "--no-baseline"),
        ("--method", "lco"),
        ("--method", "fedavg"),
        ("--drop-group", "--groups", "g0,g1"),
    ):
        done = quick(*OWN, *extra)
        assert done.returncode == 0, (extra, done.stderr)
        metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert metrics["reason"].startswith("converged") == metrics["converged"]


def test_the_same_seed_gives_the_same_run(
    quick: Program, fairsilo: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    """In this process and in another."""
    split = [word for word in OWN if word not in ("--split", "part", "--client", "client")]
    dealt = [*split[:-1], "a", "--clients", "3", "--partition", "dirichlet", "--seed", "5"]
    again = [*split[:-1], "b", "--clients", "3", "--partition", "dirichlet", "--seed", "5"]
    assert quick(*dealt).returncode == 0
    assert fairsilo(*again).returncode == 0
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (
        tmp_path / "b" / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_adult_reaches_the_published_numbers(tmp_path: Path) -> None:
    """LR, IID, eps 0.1, 5 seeds: accuracy 0.847 +- 0.01, fairness 0.97 +- 0.02 on test rows."""
    from fairsilo.run import Options, execute

    tests = [
        execute(
            Options(data="adult", epsilon=0.1, estimator="mean", seed=seed), baseline=False
        ).metrics["test"]
        for seed in range(5)
    ]
    assert np.mean([one["accuracy"] for one in tests]) == pytest.approx(0.847, abs=0.01)
    assert np.mean([one["fairness"] for one in tests]) == pytest.approx(0.97, abs=0.02)
