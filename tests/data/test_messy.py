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
from fairsilo.data.dialect import Dialect, remedy_of
from fairsilo.data.infer import understood, warn_of_codes
from fairsilo.data.look import look_at
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


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (["20,667", "26070", "0"], "`thousands` ','"),
        (["20,667", "1,200,300.5"], "`thousands` ','"),
        (["0,125", "26070"], "`decimal` ','"),
        (["20,66", "26070"], "`decimal` ','"),
    ],
)
def test_commas_before_three_digits_are_not_taken_for_decimals(
    cells: list[str], remedy: str
) -> None:
    assert remedy_of(cells) == remedy


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
        income=[f"{k},400" for k in range(1, rows + 1)],
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


@pytest.mark.parametrize(
    ("texts", "doubted"),
    [(["0.5", "1.0"], True), (["50%", "7%"], True), (["00012", "7"], False), (["1.0", "x"], False)],
)
def test_numbers_that_stay_texts_are_named(texts: list[str], doubted: bool) -> None:
    """As decimals with points under a decimal comma, or a table of texts in memory."""
    frame = pd.DataFrame({"a": texts * 60, "b": range(0, 360, 3), "g": ["f", "m"] * 60})
    frame["y"] = ["n", "n", "j", "j"] * 30
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        infer_schema(frame, label="y", group="g")
    said = any("'a' holds numbers as texts" in str(one.message) for one in told)
    assert said == doubted
    look = look_at(frame, label="y", group=("g",))
    assert any("holds numbers as texts" in one for one in look.suspicious) == doubted


@pytest.mark.parametrize(
    ("texts", "shown"), [(["#N/A", "0.5"], "0.5"), (["#N/A", "1,5"], "1,5")], ids=["point", "comma"]
)
def test_a_word_for_a_missing_cell_is_no_example(texts: list[str], shown: str) -> None:
    found = understood(pd.Series(texts * 60), "a")
    assert f"such as {shown!r}" in found.doubt + found.problem


def kept(path: Path, told: Dialect | None = None) -> tuple[pd.DataFrame, Any]:
    """The table and how its first column is understood."""
    frame = read_table(path, dialect=told)
    return frame, understood(frame.iloc[:, 0], str(frame.columns[0]))


@pytest.mark.parametrize(
    ("written", "month"),
    [
        *(("%d %b %Y", False), ("%d-%b-%Y", False), ("%d %B %Y", False), ("%d. %B %Y", False)),
        *(("%b %d, %Y", False), ("%b %Y", True), ("%B %Y", True), ("%Y-%m", True), ("%m/%Y", True)),
        *(("%d %b %Y 06:00", False), ("%Y%m%d", False)),
    ],
)
def test_dates_with_the_name_of_a_month_or_without_a_day(
    tmp_path: Path, written: str, month: bool
) -> None:
    path = write(tmp_path / "t.csv", when=[day.strftime(written) for day in DAYS])
    frame, found = kept(path)
    assert isinstance(found.feature, Date)
    meant = [day.replace(day=1) if month else day for day in DAYS]
    part = 0.25 if "06" in written else 0
    expected = [(day - dt.date(1970, 1, 1)).days + part for day in meant]
    assert measured(frame, found.feature).tolist() == expected
    # A silo's file, read by the schema, says the same.
    schema = Schema(features=(found.feature,), label="y", classes=("a", "b"), group="g", groups=())
    assert measured(read_table(path, schema), found.feature).tolist() == expected


def test_whole_numbers_that_are_days_are_dates_and_are_named() -> None:
    values = [float(f"{day:%Y%m%d}") for day in DAYS]
    found = understood(pd.Series([*values, np.nan]), "when")
    assert found.feature == Date(name="when", format="%Y%m%d")
    assert "20200131" in found.doubt
    assert "`number` when" in found.doubt
    frame = pd.DataFrame({"when": [*values, np.nan]})
    assert measured(frame, found.feature)[0] == (DAYS[0] - dt.date(1970, 1, 1)).days
    assert np.isnan(measured(frame, found.feature)[-1])
    for other in (20150229.0, 18991231.0, 21010101.0, 20150101.5):
        assert understood(pd.Series([*values, other]), "n").feature == Number(name="n")


@pytest.mark.parametrize(
    ("cells", "remedy", "told", "expected"),
    [
        (["19 400", "1 200 300.5", "7"], "`thousands` ' '", {"thousands": " "}, 1200300.5),
        (["19\u202f400", "1\u00a0200\u2009300", "7"], "' '", {"thousands": " "}, 1200300),
        (["19'400", "1'200'300", "7"], '`thousands` "\'"', {"thousands": "'"}, 1200300),
        (["19 400,5", "1 234,5", "7"], "`decimal` ',' `thousands` ' '",
         {"thousands": " ", "decimal": ","}, 1234.5),
        (["1.234.567", "12.000.000", "7"], "`decimal` ',' `thousands` '.'",
         {"thousands": ".", "decimal": ","}, 12e6),
    ],
)  # fmt: skip
def test_other_signs_between_thousands(
    tmp_path: Path, cells: list[str], remedy: str, told: dict[str, str], expected: float
) -> None:
    path = write(tmp_path / "t.csv", x=[*cells, "7"])
    problem = kept(path)[1].problem
    assert remedy in problem
    assert "`category` x" in problem
    frame, found = kept(path, Dialect(**told))
    assert found.feature == Number(name="x")
    assert frame["x"].iloc[1] == expected


def test_many_numbers_with_spaces_are_not_taken_for_remarks(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", x=[f"{k} 400" for k in range(1, 1001)] + ["7 401"] * 200)
    path.write_text(path.read_text().replace("1000 400", "1 000 400"))
    assert "give `thousands` ' '" in kept(path)[1].problem
    path = write(tmp_path / "u.csv", x=[f"{k % 999 + 1} {400 + k // 999}" for k in range(1200)])
    assert "give `thousands` ' '" in kept(path)[1].problem


@pytest.mark.parametrize(
    "cells", [["$101", "-$7.5", "$ 1e3", "NA"], ["101 €", "-7.5€", "1000", ""], ["£101", "£-7.5"]]
)
def test_signs_of_money_are_read(tmp_path: Path, cells: list[str]) -> None:
    frame, found = kept(write(tmp_path / "t.csv", x=[*cells, *cells]))
    assert found.feature == Number(name="x")
    assert frame["x"].tolist()[:2] == [101, -7.5]


def test_money_of_two_kinds_is_no_quantity(tmp_path: Path) -> None:
    found = kept(write(tmp_path / "t.csv", x=["$5", "€5", "$7", "€8"]))[1]
    assert isinstance(found.feature, Category)
    assert "numbers as texts, such as '$5'" in found.doubt
    assert (
        "give `thousands` ','" in kept(write(tmp_path / "u.csv", x=["$1,200", "$7"] * 2))[1].problem
    )


@pytest.mark.parametrize(
    ("count", "rows", "said"), [(868, 3000, True), (868, 9000, False), (50, 200, False)]
)
def test_a_category_of_very_many_texts_is_named(count: int, rows: int, said: bool) -> None:
    found = understood(pd.Series([f"week {k % count}" for k in range(rows)]), "when")
    assert isinstance(found.feature, Category)
    assert ("868 different texts in 3,000 rows" in found.doubt) == said
    assert ("2024-01-31" in found.doubt and "`drop` when" in found.doubt) == said
    assert bool(found.remark) == said


def test_whole_numbers_that_never_repeat_are_named() -> None:
    draw = np.random.default_rng(0)
    ids = draw.choice(10**8, size=400, replace=False)
    found = understood(pd.Series(ids), "id")
    assert found.feature == Number(name="id")
    assert "all different" in found.doubt
    assert "`drop` id" in found.doubt
    assert understood(pd.Series([*ids, np.nan]), "id").doubt
    for other in (ids[:200], [*ids, ids[0]], ids / 3):
        assert not understood(pd.Series(other), "x").doubt
    assert not understood(pd.Series(ids), "id", told=True).doubt


def test_the_example_of_a_number_that_cannot_be_read_is_one() -> None:
    cells = pd.Series(["#N/A N/A", "12 €", "1 234", "2 345 €"])
    assert understood(cells, "pay").problem.startswith(
        "column 'pay' holds numbers with signs between digits, such as '1 234'; give `thousands` "
    )
