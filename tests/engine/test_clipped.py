"""Clipping bounds the effect of one row, whatever its values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas import DataFrame

from fairsilo.compute import jnp
from fairsilo.data import Number, Schema
from fairsilo.data.bounded import bounded_sums, sensitivity
from fairsilo.model import Model, logistic_regression, mlp
from fairsilo.sums.clipped import clipped_curvature, clipped_outcomes, clipped_sums, shorten
from fairsilo.sums.rows import Rows

FEATURES, C, B = 3, 0.7, 2.5
MODELS = [logistic_regression(FEATURES), logistic_regression(FEATURES, 3), mlp(FEATURES)]
anything = st.floats(width=64) | st.sampled_from([1e308, -1e308, 1e154, 5e-324, 0.0, float("inf")])
rows_of_anything = st.lists(anything, min_size=FEATURES, max_size=FEATURES)
thetas = st.lists(st.floats(-1e3, 1e3), min_size=100, max_size=100)
SLACK = 1 + 1e-12


def table(row: list[float], y: int, cell: int, extra: bool) -> Rows:
    """Five ordinary rows and, with `extra`, the given row; else a row of zeros in no cell."""
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(5, FEATURES)), row])
    member = np.zeros((2, 6))
    member[np.arange(6) % 2, np.arange(6)] = 1
    member[:, 5] = 0
    member[cell, 5] = float(extra)
    if not extra:
        x[5] = 0
    labels = np.array([0, 1, 1, 0, 1, y])
    return Rows(*map(jnp.asarray, (x, labels, np.ones(6), member)))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=["lr", "lr of 3 classes", "mlp"])
@given(row=rows_of_anything, y=st.integers(0, 1), cell=st.integers(0, 1), theta=thetas)
def test_one_row_moves_sums_by_no_more_than_the_bounds(
    model: Model, row: list[float], y: int, cell: int, theta: list[float]
) -> None:
    at = jnp.asarray(theta[: model.size])
    with_row, without = (table(row, y, cell, extra) for extra in (True, False))
    after, before = (clipped_sums(model, rows, at, C, B) for rows in (with_row, without))
    losses, gradients = (np.asarray(a - b) for a, b in zip(after, before, strict=True))
    assert np.linalg.norm(gradients) <= C * SLACK
    assert np.linalg.norm(losses) <= B * SLACK
    bent = clipped_curvature(model, with_row, at, C) - clipped_curvature(model, without, at, C)
    assert np.linalg.norm(np.asarray(bent)) <= C * SLACK
    seen = clipped_outcomes(model, with_row, at, B) - clipped_outcomes(model, without, at, B)
    assert np.linalg.norm(np.asarray(seen)) <= B * np.sqrt(2) * SLACK


def test_sums_are_those_of_a_loop() -> None:
    """Logistic regression, written out row by row."""
    model, rng = logistic_regression(FEATURES), np.random.default_rng(1)
    x, y = rng.normal(size=(40, FEATURES)) * 3, rng.integers(0, 2, 40)
    cell = rng.integers(0, 3, 40)
    member = (cell == np.arange(3)[:, None]).astype(float)
    theta = rng.normal(size=FEATURES + 1)
    losses, gradients = np.zeros(3), np.zeros((3, FEATURES + 1))
    matrix = np.zeros((FEATURES + 1, FEATURES + 1))
    for j in range(40):
        row = np.concatenate([[1.0], x[j]])
        p = 1 / (1 + np.exp(-row @ theta))
        gradient = (p - y[j]) * row
        gradients[cell[j]] += gradient * min(1.0, C / np.linalg.norm(gradient))
        losses[cell[j]] += min(-np.log(p if y[j] else 1 - p), B)
        bent = p * (1 - p) * np.outer(row, row)
        matrix += bent * min(1.0, C / np.trace(bent))
    rows = Rows(*map(jnp.asarray, (x, y, np.ones(40), member)))
    found = clipped_sums(model, rows, jnp.asarray(theta), C, B)
    np.testing.assert_allclose(found[0], losses, rtol=1e-12)
    np.testing.assert_allclose(found[1], gradients, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        clipped_curvature(model, rows, jnp.asarray(theta), C), matrix, rtol=1e-10, atol=1e-12
    )


def test_what_is_short_enough_stays_as_it_is() -> None:
    vectors = jnp.asarray([[0.3, 0.4], [3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 0.0]])
    wanted = [[0.3, 0.4], [0.6, 0.8], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(shorten(vectors, 1.0), wanted)


SCHEMA = Schema(
    features=(Number(name="a", bounds=(0, 10)), Number(name="b", bounds=(-1e6, 1e6))),
    label="y",
    classes=("0", "1"),
    group="s",
    groups=("f", "m"),
)


@given(
    row=st.lists(st.floats(allow_infinity=False) | st.none(), min_size=2, max_size=2),
)
def test_one_row_moves_the_encoders_sums_by_no_more_than_the_bound(
    row: list[float | None],
) -> None:
    frame = DataFrame({"a": [1.0, 20.0], "b": [0.0, float("nan")]})
    longer = DataFrame({"a": [1.0, 20.0, row[0]], "b": [0.0, float("nan"), row[1]]}, dtype=float)
    moved = bounded_sums(longer, SCHEMA) - bounded_sums(frame, SCHEMA)
    assert np.linalg.norm(moved) <= sensitivity(SCHEMA) * SLACK
