"""Codes taken directly from the encoder equal its matrix, and are not copied."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairsilo.coded import WIDEST, Coded, aligned
from fairsilo.compute import jnp
from fairsilo.data import Category, Encoder, EncoderSums, Number, Schema
from fairsilo.data.encoder import BLOCK
from fairsilo.model import logistic_regression
from fairsilo.solver import Agp
from fairsilo.sums import Compiled, Placed, Rows

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


def test_blocks_of_rows_are_encoded_as_all_are() -> None:
    frame, encoder = table()
    whole = encoder.encode(frame)
    large = pd.concat([frame] * (BLOCK // len(frame) + 2), ignore_index=True)
    found = encoder.encode(large)
    assert len(found) == len(large)
    for start in (0, len(large) - len(frame)):
        part = found[start : start + len(frame)]
        np.testing.assert_array_equal(part.codes, whole.codes)
        np.testing.assert_array_equal(part.numbers, whole.numbers)


def test_codes_are_the_matrix() -> None:
    frame, encoder = table()
    found = encoder.encode(frame)
    assert isinstance(found, Coded)
    columns = dict(zip(encoder.feature_names, encoder.transform(frame).T, strict=True))
    a = frame["a"].to_numpy()
    scale = (a - np.nanmean(a)) / np.nanstd(a)
    np.testing.assert_allclose(columns["a"], np.where(np.isnan(a), 0, scale), atol=1e-12)
    np.testing.assert_array_equal(columns["a (missing)"], np.isnan(a))
    np.testing.assert_array_equal(columns["few=x"], frame["few"] == "x")
    np.testing.assert_array_equal(columns["few=(missing)"], frame["few"].isna())
    for value in ("v0", "v254", "v255", "v299"):
        np.testing.assert_array_equal(columns[f"many={value}"], frame["many"] == value)
    np.testing.assert_array_equal(columns["many=(other)"], frame["many"] == "unheard")
    np.testing.assert_array_equal(columns["strict=q"], frame["strict"] == "q")
    assert found.codes.dtype == np.uint8
    assert max(width for _, width in found.layout.categories) == WIDEST
    assert found.shape == (len(frame), len(encoder.feature_names))


def test_the_arrays_are_not_copied_into_jax() -> None:
    mine = aligned((1000, 3), np.float32)
    mine[:] = 1
    assert jnp.asarray(mine, np.float32).unsafe_buffer_pointer() == mine.ctypes.data


def test_an_engine_takes_the_codes_as_they_lie_and_finds_the_same_model() -> None:
    frame, encoder = table()
    n = len(frame)
    y = (np.random.default_rng(1).random(n) < 0.4).astype(np.int64)
    weights = np.full(n, 1 / n), np.where(np.arange(n) % 2 == 0, 1, -1)[None] / n
    found = encoder.encode(frame)
    model = logistic_regression(found.shape[1])
    engine = Compiled(model, Rows(found, y, *weights))  # type: ignore[arg-type]
    kept = engine.rows.x
    assert isinstance(kept, Placed)
    assert isinstance(found, Coded)
    for mine, given in ((kept.numbers, found.numbers), (kept.codes, found.codes)):
        assert mine.unsafe_buffer_pointer() == given.ctypes.data
    start, epsilon = np.zeros(model.size), [0.01]
    other = Compiled(model, Rows(encoder.transform(frame), y, *weights))  # type: ignore[arg-type]
    a, b = (one.solve(Agp(), start, epsilon, 20).theta for one in (engine, other))
    np.testing.assert_allclose(a, b, atol=1e-12)
