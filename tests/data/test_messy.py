"""Tables as they come: dates, commas, percent signs, codes, forgotten columns."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import Category, Encoder, EncoderSums, Number, infer_schema, read_table
from fairsilo.data.columns import as_declared
from fairsilo.data.dates import days, formats_of, measured
from fairsilo.data.dialect import Dialect
from fairsilo.data.infer import understood, warn_of_codes
from fairsilo.data.schema import Date, Schema
from fairsilo.errors import FairSiloError, FairSiloWarning
from fairsilo.run import Options
from fairsilo.run.prepare import read

DAYS = [dt.date(2020, 1, 31) + dt.timedelta(days=13 * k) for k in range(40)]


def write(path: Path, **columns: list[Any]) -> Path:
    """A file of these columns, a label and a group."""
    rows = len(next(iter(columns.values())))
    base = {"y": ["no", "yes"] * (rows // 2), "sex": ["f", "f", "m", "m"] * (rows // 4)}
    pd.DataFrame({**columns, **base}).to_csv(path, index=False)
    return path


def schema_of(path: Path, dialect: Dialect | None = None) -> tuple[pd.DataFrame, Schema]:
    frame = read_table(path, dialect=dialect)
    return frame, infer_schema(frame, label="y", group="sex")


@pytest.mark.parametrize(
    "written", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d/%m/%y"]
)
def test_dates_are_days(tmp_path: Path, written: str) -> None:
    path = write(tmp_path / "t.csv", when=[day.strftime(written) for day in DAYS])
    frame, schema = schema_of(path)
    [when] = [one for one in schema.features if one.name == "when"]
    assert isinstance(when, Date)
    expected = [(day - dt.date(1970, 1, 1)).days for day in DAYS]
    assert measured(frame, when).tolist() == expected
    # A later file has days that could be read in another way: the schema says in which.
    first = write(tmp_path / "u.csv", when=[dt.date(2021, 2, 1).strftime(written), "NA"] * 2)
    again = read_table(first, schema)
    found = measured(again, when)
    assert found[0] == (dt.date(2021, 2, 1) - dt.date(1970, 1, 1)).days
    assert np.isnan(found[1])
    encoder = Encoder.fit(schema, EncoderSums.of(frame, schema))
    assert "when" in encoder.feature_names
    assert Schema.model_validate_json(schema.model_dump_json()) == schema


def test_times_count_and_types_of_dates_are_dates(tmp_path: Path) -> None:
    assert days(pd.Series(["2020-01-02T12:00"]), formats_of(["2020-01-02T12:00"])[0]) == [18263.5]
    assert formats_of(["31.01.2020 06:00:00"]) == ["%d.%m.%Y %H:%M:%S"]
    frame = pd.DataFrame({"a": pd.to_datetime(DAYS), "b": DAYS}).astype({"b": object})
    for name in frame:
        assert understood(frame[name], str(name)).feature == Date(name=str(name))
        assert measured(frame, Date(name=str(name)))[0] == 18292
    frame.to_parquet(tmp_path / "t.parquet")
    assert understood(read_table(tmp_path / "t.parquet")["b"], "b").feature == Date(name="b")


@pytest.mark.parametrize("texts", [["1.2.3", "x"], ["12", "13"], [], ["2020-13-45"], ["a-b-c"]])
def test_other_texts_are_no_dates(texts: list[str]) -> None:
    assert formats_of(texts) == []


def test_a_cell_that_is_no_date_is_an_error_of_its_column(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", when=["2020-01-31", "soon", "2020-02-01", "NA"])
    with pytest.raises(FairSiloError, match=r"'when' must hold dates .* something else in 1 rows"):
        measured(read_table(path), Date(name="when", format="ISO8601"))


@pytest.mark.parametrize(
    ("cells", "dialect", "expected"),
    [
        (["19,400", "1,200,300.5", "7", "NA"], Dialect(thousands=","), [19400, 1200300.5, 7]),
        (["19400,5", "1,25", "7", ""], Dialect(decimal=","), [19400.5, 1.25, 7]),
        (["1.234,5", "12.000", "7", ""], Dialect(decimal=",", thousands="."), [1234.5, 12000, 7]),
        (["50%", "7.5 %", "0%", "NA"], Dialect(), [50, 7.5, 0]),
    ],
)
def test_numbers_with_signs(
    tmp_path: Path, cells: list[str], dialect: Dialect, expected: list[float]
) -> None:
    path = write(tmp_path / "t.csv", x=cells)
    frame, schema = schema_of(path, dialect)
    assert schema.features[0] == Number(name="x")
    assert frame["x"].tolist()[:3] == expected
    assert np.isnan(frame["x"].iloc[3])
    # Declared as a number it is read the same way, though one cell is none.
    write(path, x=[*cells[:3], "oops"])
    declared = read_table(path, schema, dialect)
    values = pd.to_numeric(declared["x"].astype(object), errors="coerce")
    assert values.tolist()[:3] == expected


def test_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;y;sex\n1,5;no;f\n2;yes;m\n")
    with pytest.raises(FairSiloError, match="give `sep` ';'"):
        read_table(path)
    assert read_table(path, dialect=Dialect(sep=";", decimal=","))["a"].tolist() == [1.5, 2]
    path.write_text("a\ty\n1\tno\n")
    assert read_table(path, dialect=Dialect(sep="TAB")).shape == (1, 2)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"sep": ";;"}, "`sep`"),
        ({"decimal": "/"}, "`decimal`"),
        ({"thousands": "x"}, "`thousands`"),
        ({"decimal": ",", "thousands": ","}, "the same character"),
    ],
)
def test_wrong_dialects(told: dict[str, str], message: str) -> None:
    with pytest.raises(FairSiloError, match=message):
        Options(data="t.csv", **told)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["00012", '"00012"'])
def test_leading_zeros_far_down_are_codes_too(tmp_path: Path, code: str) -> None:
    lines = [f"{10000 + k % 90000},{k}" for k in range(60_000)]
    lines[-7] = f"{code},5"
    path = tmp_path / "t.csv"
    path.write_text("zip,x\n" + "\n".join(lines) + "\n")
    frame = read_table(path)
    assert frame["zip"].iloc[-7] == "00012"
    assert frame["x"].dtype == np.int64


def test_leading_zeros_are_codes(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", zip=["00012", "10115", "0", "20095"])
    schema = schema_of(path)[1]
    assert schema.features[0] == Category(name="zip", values=("0", "00012", "10115", "20095"))
    assert list(read_table(path, schema)["zip"]) == ["00012", "10115", "0", "20095"]


def test_a_forgotten_split_column_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", x=[1.5, 2, 3, 4], fold=["Train", "test", "Train", "val"])
    with pytest.warns(FairSiloWarning, match=r"'fold' says which rows .*`split` fold"):
        assert "fold" not in schema_of(path)[1].columns


def test_few_whole_numbers_stay_numbers_and_are_named() -> None:
    frame = pd.DataFrame({"job": [1, 2, 9] * 20, "kids": [0.0, 1, 2, np.nan] * 15, "x": range(60)})
    with pytest.warns(FairSiloWarning, match=r"'job' \(3\), 'kids' \(3\) .*`category` job,kids"):
        warn_of_codes(frame, {"job", "kids", "x"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_codes(frame, {"x"})


def every_fault(folder: Path) -> Path:
    rows = 40
    return write(
        folder / "t.csv",
        empty=[None] * rows,
        when=["01/02/2020", "03/04/2020"] * 20,
        income=[f"{k},400" for k in range(rows)],
        damaged=[*map(str, range(rows - 1)), "?"],
    )


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError) as error:
        infer_schema(read_table(every_fault(tmp_path)), label="lable", group="sex", exclude=["id"])
    first, *others = str(error.value).splitlines()
    assert first == "the table has 6 problems:"
    for words in (
        "no column 'lable'", "no column 'id'", "'empty' is empty in every row; remove it, or",
        "can be read in two ways, such as '01/02", "give `thousands` ','", "also the text '?'",
    ):  # fmt: skip
        assert sum(words in one for one in others) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": lambda n: np.linspace(0, 1, n)}, "'y' has 40 different numbers, a quantity"),
        ({"sex": np.arange}, "'sex' has 40 different numbers, too many groups"),
    ],
)
def test_quantities_are_neither_classes_nor_groups(
    change: dict[str, Callable[[int], Any]], message: str
) -> None:
    frame = pd.DataFrame({"x": np.arange(40) / 3, "y": [0, 1] * 20, "sex": ["f", "m"] * 20})
    for name, make in change.items():
        frame[name] = make(len(frame))
    with pytest.raises(FairSiloError, match=message):
        infer_schema(frame, label="y", group="sex")


def test_drop_and_features(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", a=[1.5, 2, 3, 4], b=[1.5, 2, 3, 5], c=list("uvuv"))
    common: dict[str, Any] = {
        "data": str(path), "label": "y", "group": "sex", "protected_class": "yes", "clients": 2,
    }  # fmt: skip
    assert read(Options(**common, drop=("b", "sex")))[1].columns == ("a", "c")
    assert read(Options(**common, features=("c", "a")))[1].columns == ("a", "c")
    for told, message in (
        ({"drop": ("z",)}, "no column 'z'"),
        ({"features": ("z",)}, "no column 'z'"),
        ({"features": ("y",)}, "'y' is in `features`"),
    ):
        with pytest.raises(FairSiloError, match=message):
            read(Options(**common, **told))  # type: ignore[arg-type]


def test_what_was_named_is_not_doubted() -> None:
    frame = pd.DataFrame({"when": ["2020-01-01", "2020-01-02"] * 50, "id": range(100)})
    told = as_declared(frame, ["when"], ["id"])
    assert isinstance(understood(told["when"], "when", told=True).feature, Category)
    assert understood(told["id"], "id", told=True).feature == Number(name="id")
