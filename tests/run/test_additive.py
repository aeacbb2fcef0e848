"""Additive models: the optimum is an independent solver's, curves of a known shape are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.scale import exchanges
from scipy.optimize import minimize
from scipy.special import expit

from fairsilo import FedFairClassifier
from fairsilo.coded import Coded, dense
from fairsilo.data.binned import Block
from fairsilo.errors import FairSiloError
from fairsilo.model import additive
from fairsilo.question import Crossings, Part, Problem, Silo, Unfit
from fairsilo.run import Options, Run, execute, load, save
from fairsilo.run.crossing import gain_of
from fairsilo.run.explain import explain_table
from fairsilo.run.penalty import first_penalty
from fairsilo.run.predict import score_table
from fairsilo.run.prepare import prepare
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
        model="additive", **{"pairs": 0, **more},  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    return execute(options(table, epsilon=0.05))


@pytest.mark.slow
def test_the_optimum_is_scipys(tmp_path: Path) -> None:
    """With a penalty and a pair, on few rows: SciPy's steps are dense."""
    table = tmp_path / "shapes.csv"
    shapes(1200)[["x", "colour", "group", "y"]].to_csv(table, index=False)
    asked = options(table, epsilon=0.05, penalty=3.0, pairs="x:colour", solver=Newton(1e-9))
    run = execute(asked, baseline=False)
    assert [one.name for one in blocks_of(run)] == ["x", "colour", "x & colour"]
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
    terms = explain_table(tmp_path, table)
    assert [*terms] == ["intercept", "x", "z", "noise", "colour", "log-odds 1"]
    np.testing.assert_allclose(expit(terms["log-odds 1"]), scores["probability 1"], atol=1e-12)
    np.testing.assert_allclose(terms.iloc[:, :-1].sum(axis=1), terms["log-odds 1"], atol=1e-12)
    assert terms["colour"].nunique() == 3


@pytest.mark.slow
def test_lines_are_explained_too_and_networks_are_not(table: Path, tmp_path: Path) -> None:
    for model in ("lr", "mlp"):
        asked = replace(options(table, rounds=3), model=model, pairs=None)
        save(execute(asked, baseline=False), tmp_path / model)
    terms, (scores, _) = explain_table(tmp_path / "lr", table), score_table(tmp_path / "lr", table)
    np.testing.assert_allclose(expit(terms["log-odds 1"]), scores["probability 1"], atol=1e-12)
    with pytest.raises(FairSiloError, match="no single sum of terms"):
        explain_table(tmp_path / "mlp", table)


def crossing(n: int = 3000) -> pd.DataFrame:
    """Two features whose signs matter only together, beside the others."""
    frame, rng = shapes(n), np.random.default_rng(5)
    u, v = rng.normal(size=(2, n))
    flipped = rng.random(n) < np.where(u * v > 0, 0.8, 0.2)
    return frame.assign(u=u, v=v, y=flipped.astype(int))


@pytest.mark.slow
def test_the_pair_that_matters_is_found_by_every_engine(tmp_path: Path) -> None:
    table = tmp_path / "crossing.csv"
    crossing().to_csv(table, index=False)
    alone = execute(options(table, epsilon=0.5), baseline=False)
    found = execute(options(table, epsilon=0.5, pairs=1), baseline=False)
    other = execute(replace(found.options, engine="clientwise"), baseline=False)
    told = execute(options(table, epsilon=0.5, pairs="v:u"), baseline=False)
    names = [one.name for one in blocks_of(found) if one.pair]
    assert names == ["u & v"]
    assert [one.name for one in blocks_of(told) if one.pair] == ["v & u"]
    assert found.metrics["test"]["accuracy"] > alone.metrics["test"]["accuracy"] + 0.15
    assert told.metrics["test"]["accuracy"] > alone.metrics["test"]["accuracy"] + 0.15
    assert other.trained.outcome.theta == pytest.approx(found.trained.outcome.theta, abs=1e-8)
    assert found.metrics["setup_exchanges"] == 5
    assert found.metrics["rounds"] + found.metrics["rounds_before"] <= 20
    x = found.prepared.encoder.encode(pd.read_csv(table))
    whole = found.prepared.federation.rows + len(found.prepared.test_y)  # type: ignore[attr-defined]
    assert x.shape == (whole, found.prepared.encoder_width)
    save(found, tmp_path / "run")
    assert load(tmp_path / "run").encoder == found.prepared.encoder


@pytest.mark.slow
def test_a_target_in_rates_takes_few_exchanges(raw_data_dir: Path) -> None:
    """COMPAS has few distinct rows, so that rates move in large steps: the hardest of the three."""
    asked = Options("compas", data_dir=raw_data_dir, model="additive", target_deo=0.02)
    metrics = execute(asked, baseline=False).metrics
    assert metrics["converged"]
    assert metrics["target_met"]
    assert metrics["rounds"] <= 20
    assert exchanges(metrics) <= 30


def blocks_of(run: Run) -> tuple[Block, ...]:
    binned = run.prepared.encoder.binned
    assert binned is not None
    return binned.blocks(run.prepared.schema)


@pytest.mark.slow
def test_the_terms_are_the_score() -> None:
    frame = shapes(800)
    clf = FedFairClassifier(0.5, model="additive", pairs=0, penalty=1.0)
    X, s = frame[["x", "colour"]], frame["group"]
    clf.fit(X, frame["y"], sensitive_features=s)
    heights = clf.terms_.set_index(["term", "value"])["height"]
    row = pd.DataFrame({"x": [0.3], "colour": ["red"]})
    other = row.assign(colour="blue")
    difference = clf.decision_function(row)[0] - clf.decision_function(other)[0]
    assert difference == pytest.approx(heights["colour", "red"] - heights["colour", "blue"])


def test_gains_of_pairs_are_newtons(table: Path) -> None:
    gradient, curvature = np.array([[3.0, 0.0]]), np.array([[4.0, 0.0]])
    assert gain_of(gradient, curvature) == pytest.approx((9 / 9 - 4 / 9) / 2)


def test_crossings_are_sums_over_rows() -> None:
    """Gradient and curvature of every cell, row by row; a blank is in no cell."""
    rng = np.random.default_rng(0)
    a, b, y = rng.integers(-1, 4, 90), rng.integers(0, 3, 90), rng.integers(0, 2, 90)
    x = Coded.of((4, 3), [a, b], 90)
    model, theta = additive(7), rng.normal(size=8)
    problem = Problem(
        model=model, constraints=(), epsilon=0.0, estimator="pooled", solver=Newton(), rounds=1,
        seed=0,
    )  # fmt: skip
    coarse = np.array([0, 0, 1, 1, 0, 1, 2.0])
    asked = Crossings(theta, np.array([4.0, 3.0]), coarse, np.zeros(0))
    asked.check(problem)
    part = Part(y, np.zeros(90, int), x)
    found = asked.read(problem, asked.answer(problem, Silo(part, part)))[0, 1]
    expected = np.zeros((2, 8, 8))
    for j in range(90):
        p = expit(theta[0] + dense(x)[j] @ theta[1:])
        if a[j] >= 0:
            expected[:, int(coarse[a[j]]), int(coarse[4 + b[j]])] += p - y[j], p * (1 - p)
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-12)
    for wrong in (np.full(7, 8.0), coarse + 0.5):
        with pytest.raises(Unfit):
            replace(asked, coarse=wrong).check(problem)


@pytest.mark.parametrize(("classes", "categories", "values"), [(2, 9, 250), (6, 3, 150)])
def test_wide_categories_leave_a_model_that_newton_trains(
    tmp_path: Path, classes: int, categories: int, values: int
) -> None:
    """Else the default penalty, which needs Newton, could not be chosen. (The training itself takes
    40 s.)"""
    rng, n = np.random.default_rng(0), 30 * values
    names = [f"v{k}" for k in range(values)]
    frame = pd.DataFrame({f"c{k}": rng.choice(names, n) for k in range(categories)})
    frame = frame.assign(group=rng.choice(["a", "b"], n), y=np.arange(n) % classes)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    prepared = prepare(options(tmp_path / "wide.csv", pairs=None))
    problem = plan(options(tmp_path / "wide.csv", pairs=None), prepared)
    assert isinstance(problem.solver, Newton)
    assert 1_900 < problem.model.size <= 2_000


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ("age", "cannot be read"),
        (-1, "from 0 to"),
        ("x:nothing", "which is no feature"),
        ("x:z,x:x", "'x' with itself"),
    ],
)
def test_pairs_that_cannot_be(table: Path, pairs: object, why: str) -> None:
    with pytest.raises(FairSiloError, match=why):
        execute(options(table, pairs=pairs, penalty=1.0), baseline=False)
