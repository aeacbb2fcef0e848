import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairsilo.data import CLIENT_COLUMN, Category, EncoderSums, Number, Schema, read_table
from fairsilo.data.columns import codes_and_texts, is_number, positions, readable
from fairsilo.data.csv_file import FIRST
from fairsilo.errors import FairSiloError

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV", "t.parquet"])
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False)
    same(read_table(path), FRAME)


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """The same cells; texts are kept as codes."""
    assert not any(kind is np.dtype(object) for kind in found.dtypes)
    pd.testing.assert_frame_equal(found.astype(object), expected.astype(object))


def test_byte_order_mark_and_blank_lines_are_no_data(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbf\r\na,b\r\n1,x\r\n2,\r\n")
    same(read_table(path), FRAME)


def test_words_for_missing_are_names_among_texts_and_missing_among_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("g,x,y,b,e\nNA,1,0.5,TRUE,NA\nNone,NA,nan,NA,NA\nm,3,,FALSE,NA\n,4,1,,NA\n")
    frame = read_table(path)
    assert list(frame.columns) == ["g", "x", "y", "b", "e"]
    assert list(frame["g"][:3]) == ["NA", "None", "m"]
    missing = {name: list(frame[name].isna()) for name in frame}
    assert missing["g"] == [False, False, False, True]
    assert missing["x"] == [False, True, False, False]
    assert missing["y"] == [False, True, True, False]
    assert missing["b"] == [False, True, False, True]
    assert all(missing["e"])
    assert frame["x"].dtype == frame["y"].dtype == float
    assert frame["b"][0] == "True"


def test_parquet_index_and_decimals(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"sum": [Decimal("1.5"), None]}, index=pd.Index(["x", "y"], name="bank"))
    frame.to_parquet(path)
    loaded = read_table(str(path))
    assert list(loaded["bank"]) == ["x", "y"]
    assert loaded["sum"].dtype == float
    FRAME[FRAME["a"] > 1].to_parquet(path)
    assert list(read_table(path).columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b" \n\n", "is empty"),
        ("t.parquet", b"", "is empty"),
        ("t.csv", b"a,b\n", "no rows"),
        ("t.csv", b"a,b", "no rows"),
        ("t.csv", b",\na,b\nx,2\n", "column 1 of .* has no name"),
        ("t.csv", b"\x89PNG\0\0a,b\n1,2\n", "is binary"),
        ("t.csv", b"a,b\n1,\xe9\n", "not text in UTF-8"),
        ("t.csv", b"\xe9,b\n1,2\n", "not text in UTF-8"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", "is not a table"),
        ("t.csv", b"a,b\n1,2,3\n1,2,3\n", "is not a table"),
        ("t.csv", b'a,b\n1,"2\n', "is not a table"),
        ("t.csv", b'a,b,c\n1,2,3\n\n \n1,"2\n"\n', "line 6 has 2 of 3 fields"),
        ("t.csv", b"a,b,a\n1,2,3\n", "two columns named 'a'"),
        ("t.csv", b",b\n0,2\n", "column 1 of .* has no name"),
        ("t.csv", b"a;b\n1;2\n", "separated by ; .* give `sep` ';'"),
        ("t.csv.gz", b"a,b\n1,2\n", "not a whole gzip"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20], "not a whole gzip"),
        ("t.parquet", b"PAR1 but not really PAR1", "not a Parquet file"),
        ("t.xlsx", b"PK", "neither .csv, .csv.gz nor .parquet"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FairSiloError, match=message) as error:
        read_table(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("odd", ["0x1F", "0X1f", "NAN", "nan(1)", "9" * 21, "abc"])
@pytest.mark.parametrize("scale", [1, 0.5])
def test_a_text_far_down_a_column_of_numbers(tmp_path: Path, odd: str, scale: float) -> None:
    """Arrow reads some of them as numbers; the column is one of texts wherever the cell stands."""
    cells = [str(scale * i) for i in range(FIRST // 5)]
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{cell},0x\n" for cell in [*cells, odd]))
    column = read_table(tmp_path / "t.csv")["a"]
    assert column.iloc[-1] == odd
    assert column.iloc[1] == cells[1]
    assert not is_number(column)


def test_large_numbers_stay_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1e30,0x\n-inf,0x\n9007199254740993,0x\n")
    assert list(read_table(tmp_path / "t.csv")["a"]) == [1e30, -np.inf, 2.0**53]
    (tmp_path / "t.csv").write_text("a,b\n1,0x\n9007199254740993,0x\n")
    assert list(read_table(tmp_path / "t.csv")["a"]) == [1, 9007199254740993]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError, match=r"there is no file .*gone\.csv"):
        read_table(tmp_path / "gone.csv")


def test_parquet_with_duplicate_names(tmp_path: Path) -> None:
    one = pa.array([1])
    pq.write_table(pa.Table.from_arrays([one, one], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(FairSiloError, match="two columns named 'a'"):
        read_table(tmp_path / "t.parquet")


def write(folder: Path, **tables: str) -> Path:
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_a_folder_has_one_file_per_client(tmp_path: Path) -> None:
    write(tmp_path, south="b,a\nx,1\ny,2\n", north="a,b\n3,z\n")
    FRAME.to_parquet(tmp_path / "west.parquet")
    (tmp_path / "README.txt").write_text("not a table")
    (tmp_path / ".hidden.csv").write_text("junk")
    frame = read_table(tmp_path)
    assert list(frame.columns) == ["a", "b", CLIENT_COLUMN]
    assert list(frame[CLIENT_COLUMN]) == ["north", "south", "south", "west", "west"]
    assert list(frame["a"]) == [3, 1, 2, 1, 2]


def test_a_column_empty_at_one_client_agrees_with_all(tmp_path: Path) -> None:
    frame = read_table(write(tmp_path, one="a,b\n1,\n2,\n", two="a,b\n3,z\n"))
    assert list(frame["b"].isna()) == [True, True, False]


def pair(first: str, second: str) -> Callable[[Path], Path]:
    return lambda folder: write(folder, one=first, two=second)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda folder: folder, "has no .csv or .parquet file"),
        (pair("a,b\n1,2\n", "a,c\n1,2\n"), "column 'b' is in only one .* 'one' and 'two'"),
        (pair("a,b\n1,2\n", "a\n1\n"), "column 'b' is in only one"),
        (pair("a,b\n1,2\n", "a,b\n1,n/a?\n"), "column 'b' is numeric in only one"),
        (pair("a,client\n1,2\n", "a,client\n1,2\n"), "have a column 'client' already"),
        (pair("a,b\n1,2\n", "a,b\n"), r"two\.csv has column names but no rows"),
    ],
)
def test_folders_that_are_no_federation(
    tmp_path: Path, fill: Callable[[Path], Path], message: str
) -> None:
    with pytest.raises(FairSiloError, match=message):
        read_table(fill(tmp_path))


def test_two_files_of_one_client(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "bank.csv", index=False)
    FRAME.to_parquet(tmp_path / "bank.parquet")
    with pytest.raises(FairSiloError, match=r"two files in .* are named 'bank'"):
        read_table(tmp_path)


SCHEMA = Schema(
    features=(
        Number(name="a"),
        Category(name="b", values=("1", "2")),
        Category(name="c", values=("NA", "x")),
    ),
    label="y",
    classes=("False", "True"),
    group="sex & age",
    groups=("f & 1", "m & 2"),
    group_columns=("sex", "age"),
)


def test_declared_columns_are_what_the_schema_says(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("more,y,a,b,c,sex,age\n7,true,1,1.0,NA,f,01\n8,FALSE,NA,NA,,m,2\n")
    frame = read_table(path, SCHEMA)
    assert list(frame.columns) == ["more", "y", "a", "b", "c", "sex", "age"]
    assert list(frame["y"]) == ["True", "False"]
    assert list(frame["a"].isna()) == list(frame["b"].isna()) == [False, True]
    assert frame["b"][0] == "1"
    assert list(frame["c"].isna()) == [False, True]
    assert list(frame["age"]) == ["1", "2"]
    assert frame["more"].dtype == int
    assert frame["a"].dtype == float


@pytest.mark.parametrize("cell", ["", "NA", "oops", "3.5"])
def test_one_cell_does_not_change_how_others_are_read(tmp_path: Path, cell: str) -> None:
    """Without a schema a column of codes with one text among them is a column of texts."""
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,c,y,sex,age\n1,1.0,x,true,f,1\n2,02,NA,false,m,2\n1,{cell},x,true,f,1\n")
    frame = read_table(path, SCHEMA)
    assert list(frame["b"][:2]) == ["1", "2"]
    path.write_text(f"a,b,c,y,sex,age\n1,1,x,{cell},f,1\n2,1,NA,false,m,2\n1,1,x,true,f,1\n")
    assert list(read_table(path, SCHEMA)["y"][1:]) == ["False", "True"]


def test_a_declared_number_that_is_none_is_an_error_of_its_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,y,sex,age\n1,1,x,True,f,1\nmany,1,x,True,f,1\n")
    with pytest.raises(FairSiloError, match="column 'a' must hold numbers but has text in 1 rows"):
        EncoderSums.of(read_table(path, SCHEMA), SCHEMA)


def test_declared_columns_agree_whatever_the_files_are(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": [1], "b": [1], "c": ["x"], "y": [True], "sex": ["f"], "age": [1]})
    rows.to_parquet(tmp_path / "one.parquet")
    rows.to_csv(tmp_path / "two.csv", index=False)
    frame = read_table(tmp_path, SCHEMA)
    for name, values in SCHEMA.vocabularies.items():
        assert (positions(frame[name], values) >= 0).all()


def long_file(path: Path, first: str, *last: str) -> Path:
    """A column `a` that is the same for longer than types are guessed from."""
    path.write_text("a,b\n" + f"{first},x\n" * (1 + FIRST // (len(first) + 3)) + "".join(last))
    return path


@pytest.mark.parametrize(
    ("cell", "kind"), [("7", "int64"), ("0.5", "float64"), ("NA", "float64"), ("x", "category")]
)
def test_a_late_cell_changes_the_type_of_its_column(tmp_path: Path, cell: str, kind: str) -> None:
    frame = read_table(long_file(tmp_path / "t.csv", "5", f"{cell},y\n"))
    assert frame["a"].dtype == kind
    assert str(frame["b"].iloc[-1]) == "y"
    frame.loc[0, "a"] = frame["a"].iloc[1]


@pytest.mark.parametrize("cell", ["abc", "5.5", "0x1F"])
def test_a_declared_number_is_read_by_itself_wherever_it_is(tmp_path: Path, cell: str) -> None:
    """Hexadecimal numbers are numbers to one of Arrow's readers and not to the other."""
    schema = SCHEMA.model_copy(update={"features": (Number(name="a"),)})
    path = long_file(tmp_path / "t.csv", "5", "0x1F,y\n", f"{cell},y\n")
    assert np.isnan(readable(read_table(path, schema)["a"])[-2])


def test_long_numbers_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for digits in (18, 19, 20, 30):
        names = [f"{'1' * (digits - 1)}{k}" for k in range(3)]
        path.write_text("a,b\n" + "".join(f"{name},1\n" for name in names))
        assert codes_and_texts(read_table(path)["a"])[1] == names


@pytest.mark.slow
def test_many_columns(tmp_path: Path) -> None:
    """A header longer than the first block, and a cell in each column that changes its type."""
    names = [f"column number {k}" for k in range(20_000)]
    path = tmp_path / "t.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert read_table(path).shape == (1, 20_000)
    rows = [["0"] * 60 for _ in range(4000)]
    for k in range(60):
        rows[-1 - k][k] = "0.5"
    path.write_text("\n".join(map(",".join, [names[:60], *rows])) + "\n")
    assert read_table(path).to_numpy().sum() == 30
