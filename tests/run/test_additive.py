"""Additive models: the optimum is an independent solver's, curves of a known shape are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from fairsilo.coded import dense
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, Run, execute, load, save
from fairsilo.run.penalty import first_penalty
from fairsilo.run.predict import score_table
from fairsilo.run.problem import plan
from fairsilo.solver import Newton


def shapes(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    """A wave, a threshold, a category and noise; the group goes with the first."""
    rng = np.random.default_rng(seed)
    x, z, noise = rng.uniform(-3, 3, n), rng.exponential(size=n), rng.normal(size=n)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    group = np.where(x + rng.normal(size=n) > 0, "a", "b")
    score = 2 * np.sin(1.5 * x) + 1.5 * (z > 1) + 0.8 * (colour == "red") - 0.7
    y = (rng.random(n) < expit(score)).astype(int)
    return pd.DataFrame({"x": x, "z": z, "noise": noise, "colour": colour, "group": group, "y": y})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("additive") / "shapes.csv"
    shapes().to_csv(path, index=False)
    return path


def options(table: Path, **more: object) -> Options:
    return Options(
        str(table), label="y", protected_class="1", group="group", clients=3, drop_group=True,
        model="additive", **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    return execute(options(table, epsilon=0.05))


@pytest.mark.slow
def test_the_optimum_is_scipys(table: Path) -> None:
    run = execute(options(table, epsilon=0.05, penalty=3.0, solver=Newton(1e-9)), baseline=False)
    rows = run.prepared.federation  # type: ignore[attr-defined]
    problem = plan(run.options, run.prepared)
    penalty = first_penalty(run.prepared, problem, rows.rows)
    p = penalty.of_strengths([3.0] * len(penalty.terms)).matrix
    z = np.hstack([np.ones((rows.rows, 1)), dense(rows.x)])
    sign = np.where(rows.y == 1, 1.0, -1.0)
    sides = [(rows.s == k) & (rows.y == 1) for k in (0, 1)]
    v = sides[0] / sides[0].sum() - sides[1] / sides[1].sum()

    def value(t: np.ndarray, w: np.ndarray) -> float:
        return float(w @ np.logaddexp(0, -sign * (z @ t)))

    def slope(t: np.ndarray, w: np.ndarray) -> np.ndarray:
        out: np.ndarray = z.T @ (w * -sign * expit(-sign * (z @ t)))
        return out

    w = np.full(rows.rows, 1 / rows.rows)
    best = minimize(
        lambda t: value(t, w) + t @ p @ t / 2,
        np.zeros(z.shape[1]),
        jac=lambda t: slope(t, w) + p @ t,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda t, k=k: 0.05 - k * value(t, v),
             "jac": lambda t, k=k: -k * slope(t, v)}
            for k in (1, -1)
        ],
        options={"ftol": 1e-13, "maxiter": 2000},
    )  # fmt: skip
    theta = run.trained.outcome.theta
    assert value(theta, w) + theta @ p @ theta / 2 == pytest.approx(best.fun, abs=1e-8)
    assert abs(value(theta, v)) == pytest.approx(0.05, abs=1e-7)


@pytest.mark.slow
def test_it_sees_shapes_that_logistic_regression_does_not(run: Run, table: Path) -> None:
    line = execute(replace(run.options, model="lr"), baseline=False)
    assert run.metrics["converged"]
    assert run.metrics["test"]["accuracy"] > line.metrics["test"]["accuracy"] + 0.05
    assert run.metrics["train"]["dgeo_pooled"] <= 0.05 + 1e-6
    assert run.metrics["rounds"] + run.metrics["rounds_before"] <= 20
    assert run.metrics["setup_exchanges"] == 4


@pytest.mark.slow
def test_engines_agree_and_the_folder_says_the_same(run: Run, table: Path, tmp_path: Path) -> None:
    other = execute(replace(run.options, engine="clientwise"), baseline=False)
    assert other.trained.outcome.theta == pytest.approx(run.trained.outcome.theta, abs=1e-6)
    save(run, tmp_path)
    saved = load(tmp_path)
    assert saved.encoder == run.prepared.encoder
    scores, _ = score_table(tmp_path, table)
    x = run.prepared.encoder.encode(pd.read_csv(table))
    s = np.zeros(len(scores), int)
    np.testing.assert_allclose(
        scores["probability 1"], run.trained.predictors[0].probabilities(x, s)[:, 1], atol=1e-12
    )


def test_differential_privacy_is_refused(table: Path) -> None:
    with pytest.raises(FairSiloError, match="`model` additive has no differential privacy yet"):
        options(table, dp_epsilon=4.0)
