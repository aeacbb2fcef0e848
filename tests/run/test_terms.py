"""What every term adds: bands and importance are the slow ones, and bands cover known curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from fairsilo import FedFairClassifier, load
from fairsilo.coded import dense
from fairsilo.data.binned import Block
from fairsilo.data.steps import Steps
from fairsilo.engine import Pooled, solve_many
from fairsilo.errors import FairSiloError
from fairsilo.estimator.picture import Picture
from fairsilo.method.fedavg import unconstrained
from fairsilo.predictor.base import Plain
from fairsilo.run import Options, execute
from fairsilo.run.penalty import first_penalty
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.terms import _coarse_labels, terms_of


def table(n: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, colour = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    group = np.where(x + rng.normal(size=n) > 0, "a", "b")
    y = (rng.random(n) < expit(x + (colour == "red"))).astype(int)
    return pd.DataFrame({"x": x, "colour": colour, "group": group, "y": y})


@pytest.mark.parametrize("model", ["lr", "additive"])
def test_bands_and_importance_from_rows(tmp_path: Path, model: str) -> None:
    path = tmp_path / "table.csv"
    table().to_csv(path, index=False)
    run = execute(
        Options(
            str(path),
            label="y",
            protected_class="1",
            group="group",
            clients=2,
            drop_group=True,
            model=model,
            method="fedavg",
            penalty=2.0,
            pairs=0 if model == "additive" else None,
        )
    )
    rows, theta = run.prepared.federation, run.trained.outcome.theta  # type: ignore[attr-defined]
    z = np.hstack([np.ones((rows.rows, 1)), dense(rows.x)])
    weight = expit(z @ theta) * expit(-z @ theta)
    hess = sum(w * np.outer(one, one) for w, one in zip(weight, z, strict=True))
    names = run.prepared.encoder.feature_names
    colours = [1 + k for k, name in enumerate(names) if name.startswith("colour=")]
    # The penalty of a category is a ridge; what the curve's is, its own tests say.
    form = np.diag([0.0, *[2.0] * len(names)])
    if model == "additive":
        penalty = first_penalty(run.prepared, plan(run.options, run.prepared), rows.rows)
        form = rows.rows * penalty.of_strengths([2.0] * len(penalty.terms)).matrix
    covariance = np.linalg.inv(hess + form)
    found = {one["name"]: one for one in run.terms}
    colour = found["colour"]
    means = weight @ z[:, colours] / weight.sum()
    for k, at in enumerate(colours):
        contrast = np.zeros(len(theta))
        contrast[colours] -= means
        contrast[at] += 1
        sd = np.sqrt(contrast @ covariance @ contrast)
        assert colour["height"][k] == pytest.approx(contrast @ theta, rel=1e-5, abs=1e-8)
        assert colour["high"][k] - colour["low"][k] == pytest.approx(2 * 1.959964 * sd, rel=1e-4)
    adds = z[:, colours] @ theta[colours]
    spread = np.sqrt(np.average((adds - np.average(adds, weights=weight)) ** 2, weights=weight))
    assert colour["importance"] == pytest.approx(spread, rel=1e-4)
    if model == "lr":
        at = 1 + names.index("x")
        assert found["x"]["height"] == pytest.approx([theta[at]], rel=1e-5)
        width = found["x"]["high"][0] - found["x"]["low"][0]
        assert width == pytest.approx(2 * 1.959964 * covariance[at, at] ** 0.5, rel=1e-4)
    assert run.terms[0]["importance"] >= run.terms[1]["importance"]


@pytest.mark.slow
def test_the_compiled_loop_knows_the_curvature_too(tmp_path: Path) -> None:
    """On a GPU it trains; the Hessian is the one that NumPy's rounds end with."""
    path = tmp_path / "table.csv"
    table(200).to_csv(path, index=False)
    asked = Options(str(path), label="y", protected_class="1", group="group", clients=2)
    prepared = prepare(asked)
    problem = unconstrained(plan(asked, prepared))
    penalty = first_penalty(prepared, problem, 160.0)
    problem, engine = replace(problem, penalty=penalty), Pooled(prepared.federation)
    ((compiled,),) = solve_many([problem], [engine], [0.0])
    expected = engine.solve(problem).hess
    assert compiled.hess is not None
    assert expected is not None
    np.testing.assert_allclose(compiled.hess, expected, atol=1e-8)


@pytest.mark.slow
def test_bands_cover_curves_of_known_shape() -> None:
    """Averaged over the curves and 12 tables, 95 % bands hold the truth about as often."""
    shapes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "wave": lambda v: 1.5 * np.sin(2 * v),
        "bend": lambda v: v**2 / 3,
        "line": lambda v: 0.6 * v,
        "none": lambda v: 0 * v,
    }
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({name: rng.uniform(-2, 2, 1500) for name in shapes})
        parts = {name: shape(frame[name].to_numpy()) for name, shape in shapes.items()}
        score = np.sum(list(parts.values()), axis=0) - 0.5
        y = (rng.random(1500) < expit(score)).astype(int)
        clf = FedFairClassifier(method="fedavg", model="additive", pairs=0)
        clf.fit(frame, y)
        weight = expit(score) * expit(-score)
        for one in clf._described["terms"]:
            values, truth = frame[one["name"]], parts[one["name"]]
            truth = truth - np.average(truth, weights=weight)
            step = np.searchsorted(one["edges"], values, side="right")
            heights = np.array([truth[step == k].mean() for k in range(step.max() + 1)])
            low, high = np.array(one["low"]), np.array(one["high"])
            inside.append(np.mean((low <= heights) & (heights <= high)))
    assert 0.9 <= np.mean(inside) <= 0.995


def test_a_model_that_diverged_has_no_terms(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    table(100).to_csv(path, index=False)
    asked = Options(str(path), label="y", protected_class="1", group="group", clients=2)
    run = execute(replace(asked, method="fedavg"))
    outcome, (model,) = run.trained.outcome, run.trained.predictors
    assert isinstance(model, Plain)
    encoder, size = run.prepared.encoder, len(outcome.theta)
    lost = replace(run.trained, predictors=(Plain(model.model, np.full(size, np.nan)),))
    assert terms_of(encoder, lost, outcome, None, 80.0) == []
    for wrong in (np.full((size, size), np.nan), np.zeros((size, size))):
        (first, *_) = terms_of(encoder, run.trained, replace(outcome, hess=wrong), None, 80.0)
        assert "low" not in first
        assert np.isfinite(first["height"]).all()


def test_coarse_steps_have_joined_names() -> None:
    steps = Steps((1.0, 2.0, 3.0), (), True)
    block = Block("x", steps.labels, 0, steps)
    assert _coarse_labels(block, (0, 0, 1, 1, 2)) == ["< 2", ">= 2", "(missing)"]
    assert _coarse_labels(block, (0, 1, 1, 2, 3)) == ["< 1", "[1, 3)", ">= 3", "(missing)"]
    colours = Block("c", ("red", "green", "blue"), 0)
    assert _coarse_labels(colours, (0, 1, 1)) == ["red", "others"]


@pytest.mark.slow
def test_the_picture_tells_what_the_limit_changed(tmp_path: Path) -> None:
    frame = table()
    x, who = frame[["x", "colour"]], frame["group"]
    clf = FedFairClassifier(0.01, model="additive", pairs="x:colour")
    clf.fit(x, frame["y"], sensitive_features=who)
    clf.plot().save(tmp_path / "plot.html")
    page = (tmp_path / "plot.html").read_text()
    assert all(words in page for words in ("x &amp; colour", "without the limit", "95% band"))
    found = clf._described["terms"]
    weight = [max(one["importance"], one["free_importance"]) for one in found]
    assert weight == sorted(weight, reverse=True)
    curve = next(one for one in clf._described["terms"] if one["name"] == "x")
    assert np.ptp(curve["height"]) < np.ptp(curve["free"])
    assert all(low <= at <= high for low, at, high in zip(
        curve["low"], curve["free"], curve["high"], strict=True))  # fmt: skip
    heights = clf.terms_[clf.terms_["term"] == "x"]["height"].to_numpy()
    for (a, b), (c, d) in zip(pairwise(heights), pairwise(curve["height"]), strict=True):
        assert b - a == pytest.approx(d - c, abs=1e-4)
    clf.save(tmp_path / "run")
    assert load(tmp_path / "run").plot().html == page
    with pytest.raises(FairSiloError, match="there are no terms to draw"):
        Picture({"terms": []})
