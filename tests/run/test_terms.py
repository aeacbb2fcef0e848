"""What every term adds: bands and importance are the slow ones, and bands cover known curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

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
from fairsilo.report.sections.terms import terms
from fairsilo.run import Options, execute, save
from fairsilo.run.explain import explain_table
from fairsilo.run.penalty import first_penalty
from fairsilo.run.predict import score_table
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.terms import _coarse_labels, cancelling, terms_of


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


def test_several_classes_have_terms_of_their_own(tmp_path: Path) -> None:
    """Bands and importance from rows; the scores that are told are the model's."""
    path, rng = tmp_path / "table.csv", np.random.default_rng(1)
    frame = table(400)
    score = np.stack([frame["x"], -frame["x"], 0.5 * (frame["colour"] == "red")], axis=1)
    y = np.array(["a", "b", "c"])[np.argmax(score + rng.gumbel(size=(400, 3)), axis=1)]
    frame.assign(y=y).to_csv(path, index=False)
    run = execute(
        Options(
            str(path), label="y", protected_class="a", group="group", clients=2, drop_group=True,
            method="fedavg", penalty=2.0,
        )
    )  # fmt: skip
    rows, theta = run.prepared.federation, run.trained.outcome.theta  # type: ignore[attr-defined]
    z = np.hstack([np.ones((rows.rows, 1)), dense(rows.x)])
    scores = z @ theta.reshape(-1, 3)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    form = 2.0 * np.diag(np.repeat([0.0, *[1.0] * (z.shape[1] - 1)], 3))
    hess = form + sum(
        np.kron(np.outer(one, one), np.diag(q) - np.outer(q, q))
        for one, q in zip(z, p, strict=True)
    )
    covariance = np.linalg.pinv(hess, hermitian=True)
    colours = [1 + k for k, n in enumerate(run.prepared.encoder.feature_names) if "colour=" in n]
    for k, name in enumerate("abc"):
        found = {one["name"]: one for one in run.terms if one["class"] == name}
        weight = p[:, k] * (1 - p[:, k])
        means = weight @ z[:, colours] / weight.sum()
        contrast = np.zeros((z.shape[1], 3))
        contrast[colours] = -np.outer(means, np.eye(3)[k] - 1 / 3)
        contrast[colours[0]] += np.eye(3)[k] - 1 / 3
        at = contrast.ravel()
        colour = found["colour"]
        assert colour["height"][0] == pytest.approx(at @ theta, rel=1e-4, abs=1e-7)
        width = 2 * 1.959964 * np.sqrt(at @ covariance @ at)
        assert colour["high"][0] - colour["low"][0] == pytest.approx(width, rel=1e-4)
        own = theta.reshape(-1, 3)[:, k] - theta.reshape(-1, 3).mean(axis=1)
        adds = z[:, colours] @ own[colours]
        spread = np.sqrt(np.average((adds - np.average(adds, weights=weight)) ** 2, weights=weight))
        assert colour["importance"] == pytest.approx(spread, rel=1e-4)
    save(run, tmp_path / "run")
    told, (answers, _) = explain_table(tmp_path / "run", path), score_table(tmp_path / "run", path)
    sums = told[[f"score {name}" for name in "abc"]].to_numpy()
    parts = told[["a: intercept", "a: x", "a: colour"]].to_numpy()
    assert parts.sum(axis=1) == pytest.approx(sums[:, 0])
    assert sums.sum(axis=1) == pytest.approx(0, abs=1e-9)
    odds = np.log(answers["probability a"] / answers["probability b"])
    assert sums[:, 0] - sums[:, 1] == pytest.approx(np.asarray(odds), abs=1e-9)
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(f"<h3>For \u201c{name}\u201d</h3>" in page for name in "abc")
    assert "| colour | c |" in (tmp_path / "run" / "card.md").read_text()


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


@pytest.mark.parametrize("baseline", [True, False])
def test_terms_that_cancel_are_named(tmp_path: Path, baseline: bool) -> None:
    """What one number adds, a second takes back; without a curvature that is not known."""
    rng, path = np.random.default_rng(7), tmp_path / "table.csv"
    frame = table(400)[["x", "group"]]
    frame["twin [1]"] = frame["x"] + 0.3 * rng.normal(size=400)
    frame["other"] = rng.normal(size=400)
    score = 4 * (frame["x"] - frame["twin [1]"]) + frame["other"]
    frame["y"] = (rng.random(400) < expit(score)).astype(int)
    frame.to_csv(path, index=False)
    named: dict[str, Any] = {"label": "y", "protected_class": "1", "group": "group", "clients": 2}
    run = execute(Options(str(path), **named, drop_group=True), baseline=baseline)
    told = {one["name"]: one.get("cancels") for one in run.terms}
    save(run, tmp_path / "run")
    pages = [(tmp_path / "run" / name).read_text() for name in ("report.html", "card.md")]
    assert all(("read them together" in page) == baseline for page in pages)
    if not baseline:
        assert set(told.values()) == {None}
        return
    rows, free = run.prepared.federation, run.trained.outcome.theta  # type: ignore[attr-defined]
    z, names = dense(rows.x), run.prepared.encoder.feature_names
    a, b = (z[:, k] * free[1 + k] for k in (names.index("x"), names.index("twin [1]")))
    correlation = np.corrcoef(a, b)[0, 1]
    assert told["x"] == {"twin [1]": pytest.approx(correlation, abs=0.02)}
    assert told["twin [1]"] == {"x": told["x"]["twin [1]"]}
    assert told["other"] is None
    words = f"(what they add has a correlation of {told['x']['twin [1]']:.2f}): read them together."
    assert words in pages[0]
    assert pages[1].count("mostly cancel") == 1
    assert "twin \\[1\\]" in pages[1]


def test_what_cancels_is_as_rows_have_it() -> None:
    """The weighted correlation of a curve and a category, by hand; the third term is too small."""
    rng = np.random.default_rng(0)
    step = rng.integers(0, 4, 300)
    value, third = step // 2, rng.integers(0, 2, 300)
    codes = (step, 4 + value, 6 + third)
    z = np.hstack([np.ones((300, 1)), np.sum([np.eye(8)[one] for one in codes], axis=0)])
    theta = np.array([0.0, -2, -1, 1, 2, 1.5, -1.5, 0.01, -0.01])
    weight = rng.uniform(0.1, 0.25, 300)
    hess = (z * weight[:, None]).T @ z / 300
    blocks = (Block("a", ("",) * 4, 0), Block("b", ("",) * 2, 4), Block("c", ("",) * 2, 6))
    covariance = np.cov(theta[1 + step], theta[5 + value], aweights=weight)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert correlation < -0.9
    expected = [{"b": pytest.approx(correlation, rel=1e-5)}]
    expected += [{"a": expected[0]["b"]}, {}]
    assert cancelling(blocks, theta, hess) == expected
    theta[5:7] *= -1
    assert cancelling(blocks, theta, hess) == [{}, {}, {}], "two that add to each other"
    assert cancelling(blocks, np.zeros(9), hess) == [{}, {}, {}]
    assert cancelling(blocks, theta, None) == [{}, {}, {}]


@pytest.mark.parametrize("baseline", [True, False])
def test_it_is_said_what_importance_counts(tmp_path: Path, baseline: bool) -> None:
    """Without a model beside there is no curvature, and of a category all values count alike."""
    path = tmp_path / "table.csv"
    table(300).to_csv(path, index=False)
    asked = Options(
        str(path), label="y", protected_class="1", group="group", clients=2, penalty=2.0
    )
    run = execute(asked, baseline=baseline)
    (colour,) = (one for one in run.terms if one["name"] == "colour")
    assert colour["weighted"] == baseline
    alike = np.std(colour["height"])
    assert (colour["importance"] == pytest.approx(alike, rel=1e-4)) != baseline
    save(run, tmp_path / "run")
    for name in ("report.html", "card.md"):
        page = (tmp_path / "run" / name).read_text()
        assert ("undecided rows counting most" in page) == baseline
        assert ("values and cells counting alike" in page) != baseline
    page = (tmp_path / "run" / "report.html").read_text()
    assert ("There are no bands" in page) != baseline


def test_of_many_values_those_are_drawn_that_a_reader_needs() -> None:
    """The best known ones; where no band says how well they are known, the furthest from zero."""
    names = [f"v{k}" for k in range(14)]
    heights = [0.0, -0.01, *np.linspace(-3, 3, 12)]
    told = {
        "name": "job", "kind": "values", "importance": 1.0, "weighted": False,
        "labels": names, "height": heights,
    }  # fmt: skip
    schema = {"label": "y", "classes": ["0", "1"]}

    def left_out(term: dict[str, Any]) -> set[str]:
        page = str(terms({"schema": schema, "terms": [term]}))
        return {name for name in names if f">{name}<" not in page}

    assert left_out(told) == {"v0", "v1"}
    doubt = np.where(np.isin(names, ["v2", "v13"]), 2.0, 1.0)
    low, high = (list(heights + sign * doubt) for sign in (-1, 1))
    beside = told | {"free": heights}
    assert left_out(beside | {"low": low, "high": high}) == {"v2", "v13"}
    vast = {"low": [-99.0] * 14, "high": [99.0] * 14}
    assert left_out(beside | vast) == {"v0", "v1"}, "no interval that says anything"


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
