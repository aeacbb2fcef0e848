"""Reading in blocks: columns that nobody asks for, and texts that make no category, cost nothing.

What is said of a table is the same whether its texts are kept or counted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairsilo.data import parquet_file, read_table
from fairsilo.data.asked import Asked, everything, of_probabilities, only
from fairsilo.data.columns import MAX_VALUES
from fairsilo.data.infer import counted, understood
from fairsilo.data.table import read_features
from fairsilo.data.texts import Remarks
from fairsilo.errors import FairSiloError

ROWS = 3000
NOTES = [f"remark number {k}, which nobody else has" for k in range(ROWS)]
FRAME = pd.DataFrame(
    {"x": np.arange(ROWS) / 7, "note": NOTES, "c": ["red", "green", "blue"] * 1000}
)


def every_feature(names: Sequence[str]) -> Asked:
    return Asked(names, names)


def written(frame: pd.DataFrame, folder: Path, suffix: str) -> Path:
    path = folder / f"t.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path, index=False, row_group_size=700)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are many blocks."""
    monkeypatch.setattr("fairsilo.data.csv_file.BLOCK", 1 << 14)
    monkeypatch.setattr(parquet_file, "BLOCK", 256)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_only_the_columns_that_are_asked_for(tmp_path: Path, suffix: str) -> None:
    path = written(FRAME, tmp_path, suffix)
    whole, some = read_table(path), read_table(path, choice=only("c", "x"))
    assert list(some.columns) == ["x", "c"]
    pd.testing.assert_frame_equal(some, whole[["x", "c"]])
    assert list(read_table(path, choice=only("x", also=["c", "d"])).columns) == ["x", "c"]
    # What is not there is for whoever uses it to name, beside what is.
    assert list(read_table(path, choice=only("x", "z")).columns) == ["x", "note", "c"]


def test_an_open_quote_or_letter_that_is_no_utf_8_in_a_column_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('x,note\n1,a\n2,"b\n3,c\n')
    with pytest.raises(FairSiloError, match="a quote is not closed"):
        read_table(path, choice=only("x"))
    path.write_bytes(b"x,note\n1,a\n2,\xe9\n")
    with pytest.raises(FairSiloError, match="not text in UTF-8"):
        read_table(path, choice=only("x"))


def test_a_late_cell_widens_the_right_column_when_others_are_not_read(tmp_path: Path) -> None:
    path = written(FRAME.assign(late=[1] * (ROWS - 1) + ["n/k"]), tmp_path, "csv")
    frame = read_table(path, choice=only("late", "c"))
    assert list(frame["late"].cat.categories) == ["1", "n/k"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_free_texts_are_counted_and_not_kept(tmp_path: Path, suffix: str) -> None:
    notes = [None, *NOTES[1:], "remark number 5, which nobody else has"]
    frame = pd.DataFrame({"x": range(ROWS + 1), "note": notes})
    path = written(frame, tmp_path, suffix)
    kept, remarks = read_features(path, every_feature)
    assert list(kept.columns) == ["x"]
    found = counted(remarks["note"], "note", len(kept))
    assert found == understood(read_table(path)["note"], "note")
    assert found.missing == 1
    assert found.left_out.startswith("has 2,999 different texts in 3,001 rows")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "cells",
    [
        # Whether most are numbers is known at the end, and which text is named, too.
        [*NOTES[:1200], *map(str, range(1800))],
        [*map(str, range(1300)), *NOTES[:1700]],
        [*NOTES[:1500], *map(str, range(1500))],
        [f"2024-01-01 {k // 60 % 24:02}:{k % 60:02}:{k // 1440:02}" for k in range(ROWS)],
        [f"{k},50" for k in range(ROWS)],
        [f"{k:06}" for k in range(ROWS)],
        [*(f"{k},50" for k in range(1500)), *NOTES[1500:]],
        [f"kind {k % MAX_VALUES}" for k in range(ROWS)],
        [f"kind {k % (MAX_VALUES + 1)}" for k in range(ROWS)],
        ["", "NA", *NOTES[2:]],
        [f"{k % 28 + 1} Jan {1900 + k // 28}" for k in range(ROWS)],
        [f"{k + 1} 000" for k in range(ROWS)],
        [f"€{k}.5" for k in range(ROWS)],
        ["2024-01", *(f"2024-01-02 {k // 60:02}:{k % 60:02}" for k in range(1400)), *NOTES[1401:]],
    ],
)
def test_the_same_is_said_of_a_column_as_if_it_were_kept(
    tmp_path: Path, suffix: str, cells: list[str]
) -> None:
    path = written(pd.DataFrame({"x": range(ROWS), "t": cells}), tmp_path, suffix)
    frame, remarks = read_features(path, every_feature)
    told = remarks.get("t")
    found = understood(frame["t"], "t") if told is None else counted(told, "t", ROWS)
    assert found == understood(read_table(path)["t"], "t")


def test_free_texts_in_one_file_of_a_folder(tmp_path: Path) -> None:
    few, many = FRAME.iloc[:500], FRAME.iloc[400:2000]
    few.to_csv(tmp_path / "a.csv", index=False)
    many.to_parquet(tmp_path / "b.parquet", index=False)
    frame, remarks = read_features(tmp_path, every_feature)
    assert list(frame.columns) == ["x", "c", "client"]
    assert len(frame) == 2100
    found = counted(remarks["note"], "note", len(frame))
    assert found == understood(read_table(tmp_path)["note"], "note")
    assert found.left_out.startswith("has 2,000 different")


def test_counts_of_parts_are_those_of_all() -> None:
    one, other = Remarks(), Remarks()
    one.add(["b", "7", "c"])
    other.add(["a", "c", "8", "7.5"])
    other.missing = 2
    one.join(other)
    assert (one.texts.settle(), one.numbers.settle(), one.first, one.missing) == (3, 3, "a", 2)


def test_texts_of_large_and_small_parquet_types(tmp_path: Path) -> None:
    cells = ["a", "b", None, "a"]
    columns = {
        "small": pa.array(cells, pa.string()),
        "large": pa.array(cells, pa.large_string()),
        "coded": pa.array(cells).dictionary_encode(),
        "whole": pa.array([1, 2, None, 1]).dictionary_encode(),
        "number": pa.array([1, None, 2, 3], pa.int64()),
        "capital.gain": pa.array([1.0, 2.0, 3.0, 4.0]),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=3)
    frame = read_table(path)
    for name in ("small", "large", "coded"):
        assert list(frame[name].cat.categories) == ["a", "b"]
        assert list(frame[name].cat.codes) == [0, 1, -1, 0]
    assert frame["whole"].dtype == float
    assert frame["number"].dtype == float
    assert list(read_table(path, choice=only("capital.gain"))["capital.gain"]) == [1, 2, 3, 4]


def test_a_named_range_as_index_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    FRAME[["x"]].rename_axis("row").to_parquet(path)
    assert list(read_table(path).columns) == ["row", "x"]
    assert list(read_table(path)["row"]) == list(range(ROWS))


def test_a_named_range_of_more_rows_than_the_file_has_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pandas(FRAME[["x"]].rename_axis("row")).slice(1000), path)
    frame = read_table(path)
    assert list(frame.columns) == ["x"]
    assert list(frame["x"]) == list(FRAME["x"][1000:])


def test_a_parquet_column_without_a_value_is_numbers_beside_numbers(tmp_path: Path) -> None:
    for name, x in {"east": [1.5, 2.0], "west": [None, None]}.items():
        pd.DataFrame({"x": x, "c": ["a", "b"]}).to_parquet(tmp_path / f"{name}.parquet")
    frame = read_table(tmp_path)
    assert frame["x"].dtype == float
    assert list(frame["x"][:2]) == [1.5, 2.0]
    assert frame["x"][2:].isna().all()


def test_few_columns_of_a_file_with_a_long_header(tmp_path: Path) -> None:
    frame = pd.DataFrame({f"answer to question {k} of the survey": [k, 2] for k in range(2000)})
    path = written(frame, tmp_path, "csv")
    named = frame.columns[[3, 1999]]
    pd.testing.assert_frame_equal(read_table(path, choice=only(*named)), frame[named])


def test_columns_that_a_probability_may_mean() -> None:
    assert of_probabilities(["p", "a=b=c"]) == ["p", "a=b=c", "b=c", "c"]
    assert everything(["x"]) == Asked(["x"])


READ = """
import resource, sys
from fairsilo.data.asked import Asked, only
from fairsilo.data.table import read_features
few, path, way = sys.argv[1:]
choice = only("x", "c") if way == "only" else lambda names: Asked(names, names)
read_features(few, choice)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
frame, _ = read_features(path, choice)
assert list(frame.columns) == ["x", "c"] and len(frame) == 60_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.process
@pytest.mark.parametrize("way", ["only", "features"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_memory_follows_the_table_and_not_the_file(tmp_path: Path, suffix: str, way: str) -> None:
    """60,000 remarks of 2,000 letters, of which nothing stays: 120 MB."""
    rng, rows = np.random.default_rng(0), 60_000
    words = np.array([f"{k:09}" for k in range(5000)])
    notes = ["note " + " ".join(words[own]) for own in rng.integers(0, 5000, (rows, 200))]
    frame = pd.DataFrame({"x": np.arange(rows) / 7, "c": ["a", "b"] * (rows // 2), "note": notes})
    path, few = written(frame, tmp_path, suffix), tmp_path / "few.parquet"
    frame.head(2000).to_parquet(few)
    del notes
    told = subprocess.run(
        [sys.executable, "-c", READ, few, path, way], check=True, capture_output=True, text=True
    )
    assert int(told.stdout) < 60e6
