import functools
import json
import operator
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairsilo.data import Category, Encoder, EncoderSums, Number, Schema, infer_schema, make_table
from fairsilo.errors import FairSiloError


def schema(*features: Number | Category) -> Schema:
    return Schema(
        features=features, label="y", classes=("0", "1"), group="g", groups=("a", "b", "c")
    )


def fitted(frame: pd.DataFrame, *features: Number | Category) -> Encoder:
    declared = schema(*features)
    return Encoder.fit(declared, EncoderSums.of(frame, declared))


def column(encoder: Encoder, frame: pd.DataFrame, name: str) -> NDArray[np.float64]:
    return encoder.transform(frame)[:, encoder.feature_names.index(name)]


def test_number_is_standardised_by_the_population() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 6.0]})
    x = fitted(frame, Number(name="a")).transform(frame)
    # By hand: mean 3, squared deviations 4 + 1 + 0 + 9 over 4 rows.
    np.testing.assert_allclose(x[:, 0], (np.array([1, 2, 3, 6]) - 3) / np.sqrt(14 / 4), rtol=1e-15)


def test_missing_number_is_the_mean_and_flagged() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0]})
    encoder = fitted(frame, Number(name="a"))
    assert encoder.feature_names == ("a", "a (missing)")
    np.testing.assert_array_equal(encoder.transform(frame), [[-1, 0], [0, 1], [1, 0]])


def test_no_indicator_where_nothing_was_missing() -> None:
    encoder = fitted(pd.DataFrame({"a": [1.0, 3.0]}), Number(name="a"))
    assert encoder.feature_names == ("a",)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": [None, 3.0]})), [[0], [1]])


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1e9 + 0.3, 1e-300])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_constant_column_encodes_as_zero(value: float, rows: int) -> None:
    frame = pd.DataFrame({"a": np.full(rows, value)})
    x = fitted(frame, Number(name="a")).transform(frame)
    assert np.abs(x).max() <= 1e-12 * abs(value)


def test_a_large_mean_does_not_spoil_the_scale() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": 1e5 + rng.standard_normal(10_000)})
    x = fitted(frame, Number(name="a")).transform(frame)
    assert x.std() == pytest.approx(1, rel=1e-4)


def test_values_too_large_to_square() -> None:
    with pytest.raises(FairSiloError, match="column 'a' has values too large"):
        fitted(pd.DataFrame({"a": [1e200, 1.0]}), Number(name="a"))
    half = schema(Number(name="a"))
    sums = EncoderSums.of(pd.DataFrame({"a": [1.3e154]}), half)
    with pytest.raises(FairSiloError, match="too large"), np.errstate(over="ignore"):
        Encoder.fit(half, sums + sums)


@pytest.mark.parametrize(
    ("missing", "other", "empty", "unseen"),
    [
        (False, False, [0, 0], [0, 0]),
        (True, False, [0, 0, 1], [0, 0, 0]),
        (False, True, [0, 0, 1], [0, 0, 1]),
        (True, True, [0, 0, 1, 0], [0, 0, 0, 1]),
    ],
)
def test_missing_and_unseen_categories(
    missing: bool, other: bool, empty: list[int], unseen: list[int]
) -> None:
    feature = Category(name="c", values=("u", "v"), missing=missing, other=other)
    frame = pd.DataFrame({"c": ["v", None, "w"]})
    encoder = fitted(frame, feature)
    one = [0, 1] + [0] * (missing + other)
    np.testing.assert_array_equal(encoder.transform(frame), [one, empty, unseen])
    assert encoder.unseen(frame) == {"c": 1 if missing else 2}
    names = ("c=u", "c=v", *["c=(missing)"] * missing, *["c=(other)"] * other)
    assert encoder.feature_names == names


def test_one_spelling_of_a_category_for_every_type() -> None:
    frames = [
        pd.DataFrame({"c": values})
        for values in ([1, 2], [1.0, 2.0], ["1", "2"], pd.array([1, 2], dtype="Int64"))
    ]
    encoder = fitted(frames[0], Category(name="c", values=("1", "2")))
    for frame in frames:
        np.testing.assert_array_equal(encoder.transform(frame), np.eye(2))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.inf], "column 'a' is infinite in 1 rows"),
        (["1", "x"], "column 'a' must hold numbers but has text in 1 rows, such as 'x'; correct"),
        (["1", None, "x" * 99], f"text in 1 rows, such as '{'x' * 40}'; correct"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "column 'a' must hold numbers"),
    ],
)
def test_bad_cells_at_transform(values: list[object], message: str) -> None:
    encoder = fitted(pd.DataFrame({"a": [1.0, 3.0]}), Number(name="a"))
    with pytest.raises(FairSiloError, match=message):
        encoder.transform(pd.DataFrame({"a": values}))


def test_missing_column_at_transform() -> None:
    encoder = fitted(pd.DataFrame({"age": [1.0, 3.0]}), Number(name="age"))
    with pytest.raises(FairSiloError, match=r"no column 'age'.* did you mean 'Age'"):
        encoder.transform(pd.DataFrame({"Age": [1.0]}))


cells = st.tuples(
    # Eighths add and multiply without rounding, so results must be exactly equal.
    st.one_of(st.none(), st.integers(-4000, 4000).map(lambda k: k / 8)),
    st.integers(-50, 50),
    st.sampled_from(["u", "v", "w", None]),
    st.integers(0, 3),
)


@pytest.mark.slow
@given(st.lists(cells, min_size=1, max_size=40))
def test_silos_together_fit_what_the_union_fits(rows: list[tuple[object, ...]]) -> None:
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "silo"]).astype({"a": float})
    declared = schema(
        Number(name="a"), Number(name="b"), Category(name="c", values=("u", "v"), missing=True)
    )
    whole = EncoderSums.of(frame, declared)
    silos = [EncoderSums.of(frame[frame["silo"] == k], declared) for k in range(4)]
    together = functools.reduce(operator.add, silos)
    assert together.rows == whole.rows == len(frame)
    for field in ("count", "total", "squares"):
        np.testing.assert_array_equal(getattr(together, field), getattr(whole, field))
    expected = Encoder.fit(declared, whole).transform(frame)
    np.testing.assert_array_equal(Encoder.fit(declared, together).transform(frame), expected)
    np.testing.assert_allclose(expected, slow_reading(frame), atol=1e-9)


def slow_reading(frame: pd.DataFrame) -> NDArray[np.float64]:
    """The same encoding, row by row, with mean and deviation in two passes."""
    blocks = []
    for name in ("a", "b"):
        absent = [bool(np.isnan(v)) for v in frame[name]]
        present = [v for v in frame[name] if not np.isnan(v)]
        mean = sum(present) / len(present) if present else 0.0
        spread = np.sqrt(sum((v - mean) ** 2 for v in present) / len(present)) if present else 1.0
        blocks.append([0.0 if np.isnan(v) else (v - mean) / (spread or 1.0) for v in frame[name]])
        if any(absent):
            blocks.append([float(flag) for flag in absent])
    for value in ("u", "v"):
        blocks.append([float(v == value) for v in frame["c"]])
    blocks.append([float(not isinstance(v, str)) for v in frame["c"]])
    return np.array(blocks).T


def test_sums_of_different_schemas_do_not_add() -> None:
    frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
    one, two = (EncoderSums.of(frame, schema(Number(name=n))) for n in "ab")
    with pytest.raises(ValueError, match="different"):
        _ = one + two
    with pytest.raises(ValueError, match="another"):
        Encoder.fit(schema(Number(name="b")), one)


def test_json_round_trip_is_bit_identical() -> None:
    frame = make_table(500, missing=0.1, seed=3)
    declared = infer_schema(frame, label="label", group="group", exclude=("client",))
    encoder = Encoder.fit(declared, EncoderSums.of(frame, declared))
    loaded = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert loaded == encoder
    assert loaded.transform(frame).tobytes() == encoder.transform(frame).tobytes()


def test_damaged_json() -> None:
    good = fitted(pd.DataFrame({"a": [1.0, 3.0]}), Number(name="a")).to_json()
    one = good["scalings"][0]
    for bad in (
        {},
        good | {"schema": {}},
        good | {"scalings": []},
        good | {"scalings": [one | {"scale": 0.0}]},
        good | {"scalings": [one | {"mean": "x"}]},
    ):
        with pytest.raises(FairSiloError, match="damaged"):
            Encoder.from_json(bad)


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_a_second() -> None:
    frame = make_table(100_000, numbers=60, categories=14, missing=0.01)
    declared = infer_schema(frame, label="label", group="group", exclude=("client",))
    start = time.process_time()
    x = Encoder.fit(declared, EncoderSums.of(frame, declared)).transform(frame)
    assert time.process_time() - start < 2
    assert x.shape == (100_000, 60 * 2 + 14 * 4 + 2)
