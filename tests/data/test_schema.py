from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from fairsilo.data import Category, Number, Schema, infer_schema
from fairsilo.data.columns import as_declared
from fairsilo.errors import FairSiloError, FairSiloWarning


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "rate": [0.5, np.nan, 1.5, 2.5],
            "job": ["b", None, "a", "b"],
            "owner": [True, False, True, True],
            "sex": ["f", "m", "f", "m"],
            "bank": ["x", "x", "y", "y"],
            "paid": ["no", "yes", "no", "yes"],
        }
    )


def test_kinds_vocabularies_and_order() -> None:
    schema = infer_schema(table(), label="paid", group="sex", exclude=("bank",))
    assert schema.features == (
        Number(name="age"),
        Number(name="rate"),
        Category(name="job", values=("a", "b"), missing=True),
        Category(name="owner", values=("False", "True")),
        Category(name="sex", values=("f", "m")),
    )
    assert schema.classes == ("no", "yes")
    assert schema.groups == ("f", "m")
    assert schema.numbers == ("age", "rate")


def test_drop_group_keeps_the_groups() -> None:
    schema = infer_schema(table(), label="paid", group="sex", exclude=("bank",), drop_group=True)
    assert "sex" not in schema.columns
    assert (schema.group, schema.groups) == ("sex", ("f", "m"))


def test_an_excluded_group_is_no_feature() -> None:
    schema = infer_schema(table(), label="paid", group="bank", exclude=["bank"])
    assert "bank" not in schema.columns
    assert schema.groups == ("x", "y")


@pytest.mark.parametrize("values", [[10, 9, 10, 9], [10.0, 9.0, 10.0, 9.0]])
def test_numeric_classes_are_whole_texts_in_numeric_order(values: list[float]) -> None:
    frame = table().assign(paid=values)
    schema = infer_schema(frame, label="paid", group="sex")
    assert schema.classes == ("9", "10")


def test_json_round_trip_is_exact() -> None:
    schema = infer_schema(table(), label="paid", group="sex")
    assert Schema.model_validate_json(schema.model_dump_json()) == schema


def test_schema_is_frozen_and_consistent() -> None:
    schema = infer_schema(table(), label="paid", group="sex")
    with pytest.raises(ValidationError, match="frozen"):
        schema.label = "other"
    with pytest.raises(ValidationError, match="twice"):
        Schema(features=(), label="a", classes=("0", "0"), group="b", groups=("x", "y"))
    with pytest.raises(ValidationError, match="label"):
        Schema(
            features=(Number(name="a"),), label="a", classes=("0", "1"), group="b", groups=("x",)
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "payd"}, "no column 'payd' in the table; did you mean 'paid'"),
        ({"group": "SEX"}, "did you mean 'sex'"),
        ({"group": "zzzzzz"}, "no column 'zzzzzz' in the table; it has age, rate"),
        ({"exclude": ["bnak"]}, "did you mean 'bank'"),
        ({"group": "paid"}, "label and group are both 'paid'"),
    ],
)
def test_wrong_names(change: dict[str, object], message: str) -> None:
    arguments = {"label": "paid", "group": "sex"} | change
    with pytest.raises(FairSiloError, match=message):
        infer_schema(table(), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("age", [1.0, np.inf, -np.inf, 2.0], "column 'age' is infinite in 2 rows"),
        ("paid", ["no", None, "yes", None], "label column 'paid' is empty in 2 rows"),
        ("paid", ["no"] * 4, "label column 'paid' .* only one class, 'no'"),
        ("sex", ["f"] * 4, "group column 'sex' .* only one group, 'f'"),
        ("job", [None] * 4, "column 'job' is empty in every row"),
        ("age", [np.nan] * 4, "column 'age' is empty in every row"),
        ("job", [["a"], ["b"], ["a"], ["b"]], "column 'job' holds lists"),
    ],
)
def test_wrong_values(column: str, values: list[object], message: str) -> None:
    frame = table()
    frame[column] = pd.Series(values)
    with pytest.raises(FairSiloError, match=message):
        infer_schema(frame, label="paid", group="sex")


def test_columns_that_name_rows_are_left_out_with_a_warning() -> None:
    frame = pd.concat([table()] * 300, ignore_index=True)
    whole = infer_schema(frame, label="paid", group="sex").features
    rows = len(frame)
    names: dict[str, Any] = {
        "secret": [f"person {k}" for k in range(rows)],
        "number": range(7000, 7000 + rows),
        "day": [f"day {k % 1050}" for k in range(rows)],
    }
    for name, cells in names.items():
        with pytest.warns(FairSiloWarning, match=f"column '{name}' .*: it was left out") as told:
            found = infer_schema(frame.assign(**{name: cells}), label="paid", group="sex")
        assert found.features == whole
        assert "person" not in str(told[0].message)
    # Whole numbers far apart, or numbers that are not whole, are no row numbers.
    for cells in (np.arange(rows) * 0.5, np.arange(rows) // 2):
        found = infer_schema(frame.assign(income=cells), label="paid", group="sex")
        assert isinstance(found.features[-1], Number)
    with pytest.warns(FairSiloWarning, match="'income' holds .* all different .* `drop` income"):
        found = infer_schema(frame.assign(income=np.arange(rows) * 50), label="paid", group="sex")
    assert isinstance(found.features[-1], Number)


def test_a_column_is_what_one_says() -> None:
    frame = table().assign(code=[3, 1, 10, 1], text=["1", "2", "3", "4"])
    found = as_declared(frame, ["code"], ["text"])
    schema = infer_schema(found, label="paid", group="sex")
    assert schema.features[-2:] == (
        Category(name="code", values=("1", "10", "3")),
        Number(name="text"),
    )
    with pytest.raises(
        FairSiloError, match="column 'sex' must hold numbers but has text in 4 rows"
    ):
        as_declared(frame, [], ["sex"])
    with pytest.raises(FairSiloError, match="there is no column 'cod'"):
        as_declared(frame, ["cod"], [])
    with pytest.raises(FairSiloError, match="'code' is named as a category and as a number"):
        as_declared(frame, ["code"], ["code"])


def mixed(numbers: int, *texts: str) -> pd.DataFrame:
    frame = pd.concat([table()] * 300, ignore_index=True)
    cells = [*map(str, range(numbers)), *texts]
    return frame.assign(income=(cells * len(frame))[: len(frame)])


@pytest.mark.parametrize("frame", [mixed(9, "?"), mixed(300, "?"), mixed(1100, "?")])
def test_text_among_numbers_makes_no_category(frame: pd.DataFrame) -> None:
    with pytest.raises(FairSiloError, match=r"column 'income' .* the text '\?'; correct or empty"):
        infer_schema(frame, label="paid", group="sex")


@pytest.mark.parametrize("frame", [mixed(8, "?"), mixed(5, *"abcde"), mixed(12)])
def test_few_or_half_or_only_numbers_among_texts_stay_a_category(frame: pd.DataFrame) -> None:
    schema = infer_schema(frame, label="paid", group="sex")
    assert schema.features[-1].name == "income"
    assert isinstance(schema.features[-1], Category)


def test_no_feature_left() -> None:
    with pytest.raises(FairSiloError, match="no column is left"):
        infer_schema(table()[["paid", "sex"]], label="paid", group="sex", drop_group=True)


def test_column_names_must_be_unique_texts() -> None:
    for names in ([0, 1, 2], ["a", "a", "b"]):
        frame = pd.DataFrame([[1, 2, 3]], columns=names)
        with pytest.raises(FairSiloError, match="column names"):
            infer_schema(frame, label="a", group="b")
