"""Read a user's table: CSV, Parquet, or a folder with one such file per client."""

import csv
import gzip
import io
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data.columns import is_number, spelled, writes_number
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError

CLIENT_COLUMN = "client"
"""The column added when reading a folder: the file, and so the client, that a row is from."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")
LITERAL: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
"""pandas options by which only an empty cell is missing."""


def read_table(path: str | Path, schema: Schema | None = None) -> pd.DataFrame:
    """Read a .csv, .csv.gz or .parquet file, or all such files of a folder, one per client.

    A folder's table has the column `client` with the file names without their suffix.

    In CSV an empty cell is missing. The usual words for a missing value (NA, NaN, None, null and
    the like) are missing too in a column that otherwise holds numbers or true/false, or nothing;
    in a text column they are ordinary text, since a group may have that name. Columns declared in
    `schema` have the declared type, and each of their cells is read by itself.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path, schema)
    if not path.exists():
        raise FairSiloError(f"there is no file {path}; check the path")
    return _read_file(path, schema)


def _suffix(path: Path) -> str | None:
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def _read_folder(folder: Path, schema: Schema | None) -> pd.DataFrame:
    paths = sorted(p for p in folder.iterdir() if _suffix(p) and not p.name.startswith("."))
    if not paths:
        raise FairSiloError(
            f"folder {folder} has no .csv or .parquet file; put one per client there"
        )
    tables: dict[str, pd.DataFrame] = {}
    for path in paths:
        client = path.name[: -len(_suffix(path) or "")]
        if client in tables:
            raise FairSiloError(f"two files in {folder} are named {client!r}; keep one per client")
        tables[client] = _read_file(path, schema)
    (first_name, first), *others = tables.items()
    if CLIENT_COLUMN in first.columns:
        raise FairSiloError(
            f"the files in {folder} have a column {CLIENT_COLUMN!r} already, which is the name for "
            "the file a row is from; rename it"
        )
    typed = [] if schema is None else [*schema.vocabularies, *schema.numbers]
    for name, table in others:
        _check_alike(first_name, first, name, table, typed)
    combined = pd.concat([t[first.columns] for t in tables.values()], ignore_index=True)
    combined[CLIENT_COLUMN] = [name for name, table in tables.items() for _ in range(len(table))]
    return combined


def _check_alike(
    first_name: str, first: pd.DataFrame, name: str, table: pd.DataFrame, typed: list[str]
) -> None:
    different = sorted(set(first.columns) ^ set(table.columns))
    if different:
        raise FairSiloError(
            f"column {different[0]!r} is in only one of the files of clients {first_name!r} and "
            f"{name!r}; give all files the same columns"
        )
    for column in first.columns.difference(typed, sort=False):
        ours, theirs = first[column], table[column]
        # A column without any value has no type to compare.
        if ours.isna().all() or theirs.isna().all():
            continue
        if is_number(ours) != is_number(theirs):
            raise FairSiloError(
                f"column {column!r} is numeric in only one of the files of clients {first_name!r} "
                f"and {name!r}; correct the text among its numbers"
            )


def _read_file(path: Path, schema: Schema | None) -> pd.DataFrame:
    suffix = _suffix(path)
    if suffix is None:
        raise FairSiloError(f"{path} is neither .csv, .csv.gz nor .parquet; convert it to one")
    try:
        content = path.read_bytes()
        if suffix == ".csv.gz":
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise FairSiloError(f"{path} is not a whole gzip file; write it again") from None
    except OSError as error:
        raise FairSiloError(f"cannot read {path} ({error.strerror}); check the path") from error
    if not content or content.isspace():
        raise FairSiloError(f"{path} is empty; write a table to it")
    frame = _parquet(path, content) if suffix == ".parquet" else _csv(path, content, schema)
    if not len(frame):
        raise FairSiloError(f"{path} has column names but no rows; add rows")
    return frame


def _csv(path: Path, content: bytes, schema: Schema | None) -> pd.DataFrame:
    if b"\0" in content:
        raise FairSiloError(f"{path} is binary and not a table; give a CSV file in UTF-8")
    try:
        _check_rows(path, content)
        return _inferred(content) if schema is None else _declared(content, schema)
    except UnicodeDecodeError:
        raise FairSiloError(f"{path} is not text in UTF-8; save it as CSV in UTF-8") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error, StopIteration):
        raise FairSiloError(
            f"{path} is not a table: a row has more fields than the header, or a quote is not "
            "closed; correct that row"
        ) from None


def _check_rows(path: Path, content: bytes) -> None:
    """Refuse bad column names, and rows with too few fields, which pandas would pad."""
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(stream)
    names = next(row for row in reader if row)
    _check_names(path, names)
    for row in reader:
        # pandas skips blank lines, so they are skipped here, too.
        if len(row) < len(names) and any(field.strip() for field in row):
            raise FairSiloError(
                f"{path} is not a table: line {reader.line_num} has {len(row)} of "
                f"{len(names)} fields; correct that row"
            )


def _read_csv(content: bytes, **options: Any) -> pd.DataFrame:
    with warnings.catch_warnings():
        # pandas drops the surplus fields of a row with only a warning; make it an error.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame: pd.DataFrame = pd.read_csv(
            io.BytesIO(content),
            encoding="utf-8-sig",
            index_col=False,
            low_memory=False,
            **options,
        )
    return frame


def _inferred(content: bytes, **options: Any) -> pd.DataFrame:
    """Read a CSV file with each column's type inferred from all of its cells."""
    frame = _read_csv(content, **options)
    texts = [name for name in frame.columns if not _knows_missing(frame[name])]
    if texts:
        literal = _read_csv(content, usecols=texts, **LITERAL)
        for name in texts:
            frame[name] = literal[name]
    return frame


def _declared(content: bytes, schema: Schema) -> pd.DataFrame:
    """Read declared columns cell by cell, as texts in the schema's spelling or as numbers."""
    names = list(_read_csv(content, nrows=0).columns)
    known = {name: values for name, values in schema.vocabularies.items() if name in names}
    numbers = [name for name in schema.numbers if name in names and name not in known]
    literal = [name for name, values in known.items() if not all(map(writes_number, values))]
    others = [name for name in names if name not in known and name not in numbers]
    coded = [name for name in (*known, *numbers) if name not in literal]
    parts = [_inferred(content, usecols=others)] if others else []
    parts += [_read_csv(content, usecols=coded, dtype=str)] if coded else []
    parts += [_read_csv(content, usecols=literal, dtype=str, **LITERAL)] if literal else []
    frame = pd.concat(parts, axis=1)[names]
    for name, values in known.items():
        frame[name] = spelled(frame[name], values)
    for name in numbers:
        frame[name] = _as_numbers(frame[name])
    return frame


def _as_numbers(series: "pd.Series[Any]") -> "pd.Series[Any]":
    """Texts as numbers; unchanged if one is not a number, which `numbers` refuses later."""
    cells = series.astype(object)
    try:
        return cells.astype(np.float64)
    except ValueError:
        return cells


def _knows_missing(series: "pd.Series[Any]") -> bool:
    """Whether NA means missing in the column: true if it holds numbers, true/false or nothing."""
    return is_number(series) or pd.api.types.infer_dtype(series, skipna=True) in (
        "boolean",
        "empty",
    )


def _parquet(path: Path, content: bytes) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile, because read_table could read the folder's name as a partition.
        table = pq.ParquetFile(pa.BufferReader(content)).read()
    except (pa.ArrowException, OSError):
        raise FairSiloError(f"{path} is not a Parquet file; write it again") from None
    _check_names(path, table.column_names)
    frame: pd.DataFrame = table.to_pandas()
    # A named index becomes a column; unnamed row numbers are dropped.
    frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
    for name in frame.columns:
        if frame[name].dtype == object and pd.api.types.infer_dtype(frame[name]) == "decimal":
            frame[name] = pd.to_numeric(frame[name])
    return frame


def _check_names(path: Path, names: list[str]) -> None:
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise FairSiloError(f"column {position} of {path} has no name; name it or remove it")
        if names.index(name) != position - 1:
            raise FairSiloError(f"{path} has two columns named {name!r}; rename one")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise FairSiloError(
            f"the fields of {path} are not separated by commas; save it with commas"
        )
