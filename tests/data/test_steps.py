"""Steps found from counts: as many rows each, spikes alone, and the same however rows are split."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import Category, Encoder, EncoderSums, Number, Schema
from fairsilo.data.binned import Binned, counted, read_counts
from fairsilo.data.binned_vector import from_vector, to_vector
from fairsilo.data.steps import Pair, Steps, coarse, first_grid, second_grid, steps_of


def found(values: np.ndarray, most: int = 32) -> Steps:
    """Steps by both grids, as `run.problem` asks for them."""
    present = values[~np.isnan(values)]
    grid = first_grid(present.mean(), present.std() or 1.0)
    for _ in range(2):
        counts = np.bincount(np.searchsorted(grid, present, side="right"), minlength=1024)
        last, grid = grid, second_grid(grid, counts.astype(float))
    return steps_of(last, counts.astype(float), float(np.isnan(values).sum()), most)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "exponential"])
def test_steps_are_quantiles_whatever_the_distribution(draw: str) -> None:
    values = getattr(np.random.default_rng(0), draw)(size=40_000)
    steps = found(values)
    rows = np.bincount(steps.codes(values), minlength=steps.width)
    assert steps.width == 32
    assert not steps.spikes
    assert rows.min() > 0.7 * 40_000 / 32
    assert rows.max() < 1.4 * 40_000 / 32


def test_a_spike_is_a_step_of_its_own_and_the_rest_has_the_other_steps() -> None:
    rng = np.random.default_rng(1)
    values = np.where(rng.random(20_000) < 0.9, 0.0, rng.lognormal(8, 1, 20_000))
    steps = found(values)
    (spike,) = steps.spikes
    assert set(values[steps.codes(values) == spike]) == {0.0}
    assert 30 <= steps.width <= 32


def test_few_values_are_a_step_each_with_short_edges_between() -> None:
    values = np.repeat([1.0, 2.0, 3.0, 7.0, np.nan], 50)
    steps = found(values)
    assert steps.edges == (1.5, 2.5, 5.0)
    assert steps.missing
    assert steps.codes(np.array([1, 2, 3, 7, np.nan, -5, 100])).tolist() == [0, 1, 2, 3, 4, 0, 3]
    assert steps.labels == ("< 1.5", "[1.5, 2.5)", "[2.5, 5)", ">= 5", "(missing)")
    assert Steps((0.0,), (), False).codes(np.array([np.nan])).tolist() == [-1]


def test_values_far_from_all_others_do_not_blur_the_steps() -> None:
    values = np.append(np.random.default_rng(2).normal(size=5_000), [1e4, -1e4])
    assert found(values).width > 20


def test_a_column_without_values_has_one_step() -> None:
    assert steps_of(first_grid(0.0, 1.0), np.zeros(1024), 7.0, 32) == Steps((), (), True)


SCHEMA = Schema(
    features=(
        Number(name="a"),
        Category(name="few", values=("x", "y", "z", "w"), missing=True),
        Category(name="nothing", values=()),
        Number(name="b"),
    ),
    label="y", classes=("0", "1"), group="g", groups=("a", "b"),
)  # fmt: skip


def table(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    values = np.array(["x", "y", "z", "w", None], object)
    return pd.DataFrame(
        {
            "a": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "few": values[rng.choice(5, n, p=[0.5, 0.4, 0.01, 0.01, 0.08])],
            "nothing": "",
            "b": rng.integers(0, 3, n).astype(float),
        }
    )


def binned() -> Binned:
    frame = table()
    edges = np.concatenate([first_grid(0.0, 1.0), first_grid(1.0, 1.0)])
    parts = [counted(part, SCHEMA, edges) for part in (frame[:150], frame[150:])]
    np.testing.assert_array_equal(sum(parts), counted(frame, SCHEMA, edges))
    made = read_counts(sum(parts), SCHEMA, edges).binned(SCHEMA, 1)  # type: ignore[arg-type]
    pair = Pair(0, 2, coarse([1] * made.steps[0].width, True, 4), (0, 1, 1))
    return Binned(made.steps, made.rare, (pair,))


def test_rare_values_are_pooled_and_pairs_are_cells() -> None:
    frame, own = table(), binned()
    encoder = Encoder(SCHEMA, Encoder.fit(SCHEMA, EncoderSums.of(frame, SCHEMA)).scalings, own)
    columns = dict(zip(encoder.feature_names, encoder.transform(frame).T, strict=True))
    few = frame["few"]
    np.testing.assert_array_equal(columns["few=(rare)"], few.isin(["z", "w"]))
    np.testing.assert_array_equal(columns["few=(missing)"], few.isna())
    assert sum(columns[f"few={k}"].sum() for k in ("x", "y", "(rare)", "(missing)")) == 400
    a = own.steps[0].codes(frame["a"].to_numpy())
    pair = own.pairs[0]
    for k in range(pair.shape[0]):
        for j in range(pair.shape[1]):
            in_a = np.isin(a, np.flatnonzero(np.array(pair.rows) == k))
            in_b = (frame["b"] == 0) if j == 0 else (frame["b"] > 0)
            np.testing.assert_array_equal(columns[f"a & b={k},{j}"], in_a & in_b)


def wide(categories: int, values: int, numbers: int = 0) -> tuple[Schema, pd.DataFrame]:
    """Categories of many values, ten rows of each and more; numbers without a spike."""
    rng, names = np.random.default_rng(7), [f"v{k}" for k in range(values)]
    share = np.arange(1, values + 1) / np.arange(1, values + 1).sum()
    n = 20 * values
    frame = {
        f"c{k}": [*(10 * names), *rng.choice(names, n - 10 * values, p=np.roll(share, k))]
        for k in range(categories)
    }
    frame |= {f"n{k}": rng.normal(size=n).tolist() for k in range(numbers)}
    features = tuple(
        Number(name=name) if name.startswith("n") else Category(name=name, values=tuple(names))
        for name in frame
    )
    schema = Schema(features=features, label="y", classes=("0", "1"), group="g", groups=("a", "b"))
    return schema, pd.DataFrame(frame)


@pytest.mark.parametrize(
    ("shape", "outputs"), [((9, 250), 1), ((3, 150, 2), 6), ((9, 250, 70), 1), ((2, 40, 3), 1)]
)
def test_the_rarest_values_of_all_make_room(shape: tuple[int, ...], outputs: int) -> None:
    schema, frame = wide(*shape)
    edges = np.concatenate([*(first_grid(0.0, 1.0) for _ in schema.numbers), np.zeros(0)])
    counts = read_counts(counted(frame, schema, edges), schema, edges)
    made = counts.binned(schema, outputs)
    columns = sum(block.width for block in made.blocks(schema))
    assert outputs * (1 + columns) <= 2_000
    rare = [set(own) for own in made.rare]
    if shape == (2, 40, 3):
        assert not any(rare)
        return
    pooled = [c[k] for c, own in zip(counts.categories, rare, strict=True) for k in own]
    kept = [
        c[k]
        for c, own in zip(counts.categories, rare, strict=True)
        for k in range(len(c))
        if k not in own
    ]
    assert max(pooled) <= min(kept) + 1
    assert len(kept) > 60
    if len(shape) == 2:
        assert outputs * (1 + columns) > 1_980
    else:
        assert min(one.width for one in made.steps) >= 12


def test_an_encoder_with_steps_travels_and_is_saved_unchanged() -> None:
    own = binned()
    assert from_vector(to_vector(own)) == own
    assert Binned.from_json(json.loads(json.dumps(own.to_json()))) == own
    own.check(SCHEMA)
    for wrong in (to_vector(own)[:-1], to_vector(own) + 0.5, np.array([np.inf, 1.0])):
        with pytest.raises(ValueError, match=r"number|list|length"):
            from_vector(wrong).check(SCHEMA)
    for pair in (Pair(0, 9, (0,), (0,)), Pair(0, 1, (0,), (0, 1))):
        with pytest.raises(ValueError, match="there are not"):
            Binned(own.steps, own.rare, (pair,)).check(SCHEMA)


def test_coarse_steps_are_neighbours_and_coarse_values_the_largest() -> None:
    assert coarse([5, 5, 5, 5], True, 2) == (0, 0, 1, 1)
    assert coarse([1, 9, 5, 2], False, 3) == (2, 0, 1, 2)
    assert coarse([1, 2], True, 8) == (0, 1)
