"""Additive models under differential privacy: steps from noisy counts, and what they cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from fairsilo.arrays import Floats
from fairsilo.data import Category, Encoder, Number, Schema
from fairsilo.data.binned import read_counts
from fairsilo.data.bounded import (
    bounded_grids,
    encoder_in_steps,
    histogram_message,
    histogram_sensitivity,
)
from fairsilo.dp import Budget, Plan, Release, Split
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.model import additive
from fairsilo.question import Cells, NoisyHistogram, Unfit
from fairsilo.run import Options, Run, execute
from fairsilo.run.counted import curvature_of
from fairsilo.run.problem import unencoded
from fairsilo.solver import Noisy, Sums

SCHEMA = Schema(
    features=(
        Number(name="x", bounds=(-3, 3)),
        Number(name="z", bounds=(0, 10)),
        Category(name="colour", values=("red", "green", "blue", "grey"), other=True),
    ),
    label="y",
    classes=("0", "1"),
    group="group",
    groups=("a", "b"),
)
PLAN = Plan.of(Budget(4.0, 1e-5), Split(), rounds=15, curvature=False)


def shapes(n: int, seed: int = 0) -> pd.DataFrame:
    """A wave, a threshold and a category that do not go together; missing cells and outliers."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-3, 3, n), rng.exponential(size=n) * (rng.random(n) > 0.3)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    y = rng.random(n) < expit(2 * np.sin(1.5 * x) + 1.5 * (z > 1) + (colour == "red") - 1)
    group = np.where(x + rng.normal(size=n) > 0, "a", "b")
    z[rng.random(n) < 0.1] = np.nan
    frame = {"x": x, "z": z, "colour": colour, "group": group, "y": y.astype(int)}
    return pd.DataFrame({**frame, "client": np.array(["p", "q", "r"])[np.arange(n) % 3]})


def test_one_row_moves_the_counts_by_one_for_each_feature() -> None:
    """Whatever is in its cells, and exactly so far where none is out of the vocabulary."""
    frame = shapes(200)
    odd = pd.DataFrame({"x": [1e300, -1e9, np.nan], "z": [np.nan, 1e300, -1e300]})
    odd = odd.assign(colour=["red", "unheard of", ""])
    before = histogram_message(frame, SCHEMA, PLAN)
    lengths = []
    for row in range(len(odd)):
        more = pd.concat([frame, odd.iloc[[row]]], ignore_index=True)
        after = histogram_message(more, SCHEMA, PLAN)
        lengths.append(np.linalg.norm(after.values - before.values))
    assert before.sensitivity == histogram_sensitivity(SCHEMA) == np.sqrt(3)
    assert lengths[0] == pytest.approx(np.sqrt(3))
    assert max(lengths) <= before.sensitivity + 1e-12
    assert before.release == Release("histograms", PLAN.encoder)


def in_steps(frame: pd.DataFrame, noise: float) -> tuple[Encoder, tuple[Floats, ...]]:
    rng = np.random.default_rng(1)
    vector = histogram_message(frame, SCHEMA, PLAN).values
    vector = vector + noise * rng.normal(size=len(vector))
    return encoder_in_steps(
        SCHEMA, read_counts(vector, SCHEMA, bounded_grids(SCHEMA)), noise, outputs=1
    )


def test_steps_are_quantiles_within_the_noise_and_what_it_drowns_is_pooled() -> None:
    frame = shapes(20_000)
    encoder, rows = in_steps(frame, 20.0)
    assert encoder.binned is not None
    first, second = encoder.binned.steps
    assert not first.missing, "noise is no missing cell"
    assert second.missing
    assert len(first.edges) + 1 <= 16
    for steps, name, own in zip((first, second), ("x", "z"), rows, strict=False):
        codes = steps.codes(frame[name].to_numpy())
        exact = np.bincount(codes[codes >= 0], minlength=steps.width)
        # A step is made of at most 128 cells.
        assert np.abs(own - exact).max() < 4 * 20 * np.sqrt(128)
    assert np.bincount(first.codes(frame["x"].to_numpy())).max() < 2 * 20_000 / 16
    assert 0 in second.spikes, "three in ten are zero"
    labels = encoder.binned.blocks(SCHEMA)[2].labels
    assert labels == ("red", "green", "blue", "(rare)"), "nobody is grey or of another colour"
    assert encoder.scalings[0].mean == pytest.approx(0.0, abs=0.1)
    assert encoder.scalings[0].scale == pytest.approx(np.sqrt(3), rel=0.05)


def test_the_curvature_is_that_of_independent_features_and_more_on_the_diagonal() -> None:
    frame = shapes(20_000).assign(z=np.random.default_rng(2).exponential(size=20_000))
    encoder, rows = in_steps(frame, 1e-6)
    model = additive(len(encoder.feature_names))
    found = curvature_of(encoder, rows, model)
    x = np.column_stack([np.ones(len(frame)), encoder.transform(frame)])
    exact = x.T @ x / len(frame) / 4
    widths = encoder.widths
    block = np.concatenate([[-1], np.repeat(np.arange(len(widths)), widths)])
    across = block[:, None] != block[None]
    np.testing.assert_allclose(found[across], exact[across], atol=0.25 * 0.01)
    difference = found - exact
    assert np.linalg.eigvalsh(difference).min() > -0.01, "a bound, where features are independent"


@pytest.mark.parametrize("counted", [False, True])
def test_a_curvature_that_is_too_small_is_noticed(counted: bool) -> None:
    """A quadratic whose curvature is five times as much as is said."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    hess, best = root @ root.T + np.eye(4), rng.normal(size=4)
    none = np.zeros(0)

    def answer(query: Any, order: Any) -> Sums:
        g = hess @ (query.theta - best)
        return Sums(g @ g, none, g, np.zeros((0, 4)), hess / 5)

    found = drive(Noisy(40, 1e-9, counted=counted), answer, np.zeros(4), none, 40)
    off = np.abs(found.theta - best).max()
    assert off < 1e-3 if counted else off > 1e3


def declared(folder: Path, **more: Any) -> Options:
    table, schema = folder / "table.csv", folder / "schema.json"
    if not table.exists():
        shapes(6000).to_csv(table, index=False)
        schema.write_text(json.dumps(SCHEMA.model_dump(mode="json")))
    values = {
        "label": "y", "group": "group", "protected_class": "1", "schema": schema,
        "client": "client", "client_names": ("p", "q", "r"), "model": "additive",
    }  # fmt: skip
    return Options(str(table), **{**values, **more})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("private")
    return execute(declared(folder, dp_epsilon=4.0, epsilon=0.2, pairs="x:colour"))


@pytest.mark.slow
def test_the_ledger_has_every_release_and_is_the_budget(run: Run) -> None:
    """Added up by hand: 1/z^2 of what was released is the budget's, a millionth left."""
    dp = run.metrics["dp"]
    ledger = {one["release"]: one["times"] for one in dp["ledger"]}
    assert ledger == {
        "histograms": 1, "counts": 1, "gradients": 15, "losses": 15, "outcomes": 1
    }  # fmt: skip
    cost = sum(one["times"] / one["noise_multiplier"] ** 2 for one in dp["ledger"])
    assert cost == pytest.approx(Budget(4.0, 1e-5).total, rel=1e-12)
    assert 4.0 - 1e-4 < dp["epsilon_spent"] <= 4.0


@pytest.mark.slow
def test_a_wave_is_found_with_a_named_pair_beside(run: Run) -> None:
    terms = {one["name"]: one for one in run.terms}
    assert set(terms) == {"x", "z", "colour", "x & colour"}
    wave = terms["x"]
    assert "low" not in wave, "no band: features that go together are not known"
    middles = np.convolve([-3, *wave["edges"], 3], [0.5, 0.5], "valid")
    assert np.corrcoef(np.sin(1.5 * middles), wave["height"])[0, 1] > 0.9
    assert run.metrics["test"]["accuracy"] > 0.7
    penalty = run.metrics["penalty"]
    assert penalty["by"] == "noise"
    assert penalty["strengths"]["x (curve)"] == pytest.approx(10 * penalty["strengths"]["x"])
    assert run.metrics["setup_exchanges"] == 2, "as many as logistic regression has"


def test_what_is_not_paid_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError, match="`pairs` 10 are found from exact sums"):
        declared(tmp_path, dp_epsilon=4.0, pairs=10)
    with pytest.raises(FairSiloError, match="`penalty` auto looks at exact sums"):
        declared(tmp_path, dp_epsilon=4.0, penalty="auto")
    options = declared(tmp_path, dp_epsilon=4.0)
    assert options.crossed == 0
    problem = unencoded(options, SCHEMA)
    NoisyHistogram().check(problem)
    with pytest.raises(Unfit, match="not of steps"):
        Cells(problem.model.start(0), curvature=True).check(problem)
    with pytest.raises(Unfit, match="the model has no steps"):
        NoisyHistogram().check(unencoded(declared(tmp_path, model="lr", dp_epsilon=4.0), SCHEMA))
    unbounded = SCHEMA.model_copy(update={"features": (Number(name="x"), *SCHEMA.features[1:])})
    with pytest.raises(FairSiloError, match="column 'x' has no declared bounds"):
        NoisyHistogram().check(unencoded(options, unbounded))


def test_a_rows_gradient_is_clipped_at_half_of_its_longest(tmp_path: Path) -> None:
    """A row of steps is a one for the intercept and for each term."""
    for pairs, terms in ((None, 3), ("x:z,x:colour", 5)):
        promise = unencoded(declared(tmp_path, dp_epsilon=4.0, pairs=pairs), SCHEMA).promise
        assert promise is not None
        assert promise.clip.gradient == pytest.approx(np.sqrt(1 + terms) / 2)


def test_the_longest_gradient_of_several_classes_is_longer(tmp_path: Path) -> None:
    """A row that is surely predicted wrong: the probabilities minus its class are sqrt 2 long."""
    three = SCHEMA.model_copy(update={"classes": ("0", "1", "2")})
    promise = unencoded(declared(tmp_path, dp_epsilon=4.0), three).promise
    assert promise is not None
    wrong = np.array([1.0, 0.0, 0.0]) - np.array([0.0, 1.0, 0.0])
    gradient = np.outer(np.ones(1 + 3), wrong)
    assert promise.clip.gradient == pytest.approx(np.linalg.norm(gradient) / 2)
