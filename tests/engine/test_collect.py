"""Codes taken directly from the encoder equal its matrix, and are not copied."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairsilo.compute import jnp
from fairsilo.data import Category, Encoder, EncoderSums, Number, Schema
from fairsilo.model import logistic_regression
from fairsilo.solver import Agp
from fairsilo.sums import Coded, Compiled, Rows, aligned, collect, dense
from fairsilo.sums.coded import WIDEST

VALUES = tuple(f"v{i}" for i in range(300))


def table(n: int = 500) -> tuple[pd.DataFrame, Encoder]:
    """Missing cells of both kinds, a category over 255 wide, values outside the vocabulary."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(3, 2, n)),
            "few": np.array(["x", "y", "unheard", None])[rng.integers(0, 4, n)],
            "b": rng.integers(0, 9, n),
            "many": rng.choice([*VALUES, "unheard"], n),
            "strict": rng.choice(["p", "q", "unheard"], n),
            "nothing": "",
        }
    )
    schema = Schema(
        features=(
            Number(name="a"),
            Category(name="few", values=("x", "y"), missing=True),
            Number(name="b"),
            Category(name="many", values=VALUES, other=True),
            Category(name="strict", values=("p", "q")),
            Category(name="nothing", values=()),
        ),
        label="y",
        classes=("0", "1"),
        group="g",
        groups=("a", "b"),
    )
    return frame, Encoder.fit(schema, EncoderSums.of(frame, schema))


@pytest.mark.parametrize("rows", [500, 128, 1])
def test_blocks_collected_are_the_matrix(rows: int) -> None:
    frame, encoder = table(500 if rows > 1 else 7)
    found = collect(encoder.widths, len(frame), encoder.blocks(frame, rows), np.float64)
    np.testing.assert_array_equal(dense(found), encoder.transform(frame))
    assert found.codes.dtype == np.uint8
    assert max(width for _, width in found.layout.categories) == WIDEST
    assert found.shape == (len(frame), len(encoder.feature_names))


def test_numbers_alone_and_categories_alone() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "c": ["x", "y", "x"]})
    for features in ((Number(name="a"),), (Category(name="c", values=("x", "y")),)):
        schema = Schema(
            features=features, label="y", classes=("0", "1"), group="g", groups=("a", "b")
        )
        encoder = Encoder.fit(schema, EncoderSums.of(frame, schema))
        found = collect(encoder.widths, 3, encoder.blocks(frame), np.float64)
        np.testing.assert_array_equal(dense(found), encoder.transform(frame))


def test_blocks_of_another_table_are_refused() -> None:
    frame, encoder = table(20)
    with pytest.raises(ValueError, match="20 rows instead of 21"):
        collect(encoder.widths, 21, encoder.blocks(frame))


def test_the_arrays_are_not_copied_into_jax() -> None:
    mine = aligned((1000, 3), np.float32)
    mine[:] = 1
    assert jnp.asarray(mine, np.float32).unsafe_buffer_pointer() == mine.ctypes.data


def test_an_engine_takes_the_codes_as_they_lie_and_finds_the_same_model() -> None:
    frame, encoder = table()
    n = len(frame)
    y = (np.random.default_rng(1).random(n) < 0.4).astype(np.int64)
    weights = np.full(n, 1 / n), np.where(np.arange(n) % 2 == 0, 1, -1)[None] / n
    found = collect(encoder.widths, n, encoder.blocks(frame))
    model = logistic_regression(found.shape[1])
    engine = Compiled(model, Rows(found, y, *weights), np.float32)  # type: ignore[arg-type]
    kept = engine.rows.x
    assert isinstance(kept, Coded)
    for mine, given in ((kept.numbers, found.numbers), (kept.codes, found.codes)):
        assert mine.unsafe_buffer_pointer() == given.unsafe_buffer_pointer()
    start, epsilon = np.zeros(model.size), [0.01]
    other = Compiled(model, Rows(encoder.transform(frame), y, *weights), np.float32)  # type: ignore[arg-type]
    a, b = (one.solve(Agp(), start, epsilon, 20).theta for one in (engine, other))
    np.testing.assert_allclose(a, b, atol=1e-6)
