"""The encoder from bounded sums equals the plain encoder, and noise does not break it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairsilo.data import (
    DATASETS,
    Encoder,
    EncoderSums,
    Number,
    infer_schema,
    load,
    make_table,
    read_schema,
    schema_of,
)
from fairsilo.data.bounded import bounded_sums, encoder_of_sums
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError

TABLE = make_table(300, silos=3, seed=2, missing=0.1)


def bounded(low: float, high: float) -> Schema:
    schema = infer_schema(TABLE, label="label", group="group", exclude=("client",))
    features = tuple(
        Number(name=f.name, bounds=(low, high)) if isinstance(f, Number) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features})


def test_without_noise_it_is_the_plain_encoder() -> None:
    schema = bounded(-20.0, 30.0)
    plain = Encoder.fit(schema, EncoderSums.of(TABLE, schema))
    parts = [TABLE.iloc[:100], TABLE.iloc[100:]]
    found = encoder_of_sums(schema, sum(bounded_sums(part, schema) for part in parts), 0.0)  # type: ignore[arg-type]
    for a, b in zip(found.scalings, plain.scalings, strict=True):
        assert (a.mean, a.scale) == pytest.approx((b.mean, b.scale))
        assert a.missing == b.missing


def test_a_value_beyond_its_bounds_counts_as_the_bound() -> None:
    schema = bounded(-0.5, 0.5)
    cut = TABLE.copy()
    for name in schema.numbers:
        cut[name] = cut[name].clip(-0.5, 0.5)
    np.testing.assert_allclose(bounded_sums(TABLE, schema), bounded_sums(cut, schema))


def test_noise_larger_than_the_spread_gives_a_scale_of_the_noise() -> None:
    schema = bounded(-1000.0, 1000.0)
    encoder = encoder_of_sums(schema, bounded_sums(TABLE, schema), deviation=3.0)
    for scaling, name in zip(encoder.scalings, schema.numbers, strict=True):
        rows = TABLE[name].notna().sum()
        assert scaling.scale == pytest.approx(1000 * math.sqrt(4 * 3.0 / rows))
    wild = encoder_of_sums(schema, np.full(1 + 3 * len(schema.numbers), -50.0), deviation=9.0)
    assert np.isfinite([(s.mean, s.scale) for s in wild.scalings]).all()
    assert not any(s.missing for s in wild.scalings)


@pytest.mark.parametrize("name", DATASETS)
def test_declared_bounds_hold_the_published_rows(
    name: str, data_dir_of: Callable[[str], Path | None]
) -> None:
    frame = load(name, data_dir=data_dir_of(name))
    for feature in schema_of(name, frame).features:
        if isinstance(feature, Number):
            assert feature.bounds is not None
            assert frame[feature.name].between(*feature.bounds).mean() > 0.999


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_bounds_are_two_numbers_in_order(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="lower first"):
        Number(name="age", bounds=bounds)


def test_a_schema_is_read_as_it_was_written(tmp_path: Path) -> None:
    schema, path = bounded(-1.0, 1.0), tmp_path / "schema.json"
    path.write_text(schema.model_dump_json())
    assert read_schema(path) == schema
    path.write_text(schema.model_dump_json().replace('"label"', '"lable"', 1))
    with pytest.raises(FairSiloError, match="is not a valid schema"):
        read_schema(path)
    with pytest.raises(FairSiloError, match="cannot read the schema"):
        read_schema(tmp_path / "none.json")
