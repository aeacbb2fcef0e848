"""Read a user's table: CSV, Parquet, or a folder with one such file per client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data.columns import codes_and_texts, decimals_as_numbers, is_number
from fairsilo.data.csv_file import check_names, read_csv
from fairsilo.data.dialect import Dialect
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError

CLIENT_COLUMN = "client"
"""The column added when reading a folder: the file, and so the client, that a row is from."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_table(
    path: str | Path, schema: Schema | None = None, dialect: Dialect | None = None
) -> pd.DataFrame:
    """Read a .csv, .csv.gz or .parquet file, or all such files of a folder, one per client.

    A folder's table has the column `client` with the file names without their suffix.

    Texts are categories, whose codes are all that is kept of their cells. In CSV an empty cell is
    missing. The usual words for a missing value (NA, NaN, None, null and the like) are missing too
    in a column that otherwise holds numbers or true/false, or nothing; in a text column they are
    ordinary text, since a group may have that name. Columns declared in `schema` have the declared
    type, and each of their cells is read by itself. `dialect`: how CSV files are written. A number
    may have a percent sign; a number that begins with a further zero is a text, such as 00012.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path, schema, dialect)
    if not path.exists():
        raise FairSiloError(f"there is no file {path}; check the path")
    return _read_file(path, schema, dialect)


def _suffix(path: Path) -> str | None:
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def _read_folder(folder: Path, schema: Schema | None, dialect: Dialect | None) -> pd.DataFrame:
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
        tables[client] = _read_file(path, schema, dialect)
    (first_name, first), *others = tables.items()
    if CLIENT_COLUMN in first.columns:
        raise FairSiloError(
            f"the files in {folder} have a column {CLIENT_COLUMN!r} already, which is the name for "
            "the file a row is from; rename it"
        )
    typed = [] if schema is None else [*schema.vocabularies, *schema.numbers]
    for name, table in others:
        _check_alike(first_name, first, name, table, typed)
    sizes = [len(table) for table in tables.values()]
    # A file's column goes as soon as it is part of the whole.
    names = list(first.columns)
    columns = {name: _joined([table.pop(name) for table in tables.values()]) for name in names}
    owner = np.repeat(np.arange(len(sizes)), sizes)
    columns[CLIENT_COLUMN] = pd.Categorical.from_codes(owner, pd.Index(list(tables), dtype=object))
    return pd.DataFrame(columns, copy=False)


def _joined(parts: list[pd.Series[Any]]) -> Any:
    """A column of several files: categories stay codes, of the texts of all files."""
    if not any(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
        return pd.concat(parts, ignore_index=True)
    each = [codes_and_texts(part) for part in parts]
    texts = sorted({text for _, found in each for text in found})
    place = {text: k for k, text in enumerate(texts)}
    codes = [np.array([*map(place.get, found), -1])[own] for own, found in each]
    return pd.Categorical.from_codes(np.concatenate(codes), pd.Index(texts, dtype=object))


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
        if is_number(ours) != is_number(theirs) and not (ours.isna().all() or theirs.isna().all()):
            raise FairSiloError(
                f"column {column!r} is numeric in only one of the files of clients {first_name!r} "
                f"and {name!r}; correct the text among its numbers"
            )


def _read_file(path: Path, schema: Schema | None, dialect: Dialect | None) -> pd.DataFrame:
    suffix = _suffix(path)
    if suffix is None:
        raise FairSiloError(f"{path} is neither .csv, .csv.gz nor .parquet; convert it to one")
    try:
        if not path.stat().st_size:
            raise FairSiloError(f"{path} is empty; write a table to it")
        if suffix != ".parquet":
            return read_csv(path, suffix == ".csv.gz", schema, dialect)
        frame = _parquet(path)
    except OSError as error:
        raise FairSiloError(f"cannot read {path} ({error.strerror}); check the path") from error
    if not len(frame):
        raise FairSiloError(f"{path} has column names but no rows; add rows")
    return frame


def _parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # ParquetFile, because read_table could read the folder's name as a partition.
        with pq.ParquetFile(path) as file:
            kinds = zip(file.schema_arrow.names, file.schema_arrow.types, strict=True)
            texts = [name for name, kind in kinds if pa.types.is_string(kind)]
        with pq.ParquetFile(path, read_dictionary=texts, memory_map=True) as file:
            check_names(path, file.schema_arrow.names)
            table = file.read(use_threads=False)
    except (pa.ArrowException, OSError):
        raise FairSiloError(f"{path} is not a Parquet file; write it again") from None
    frame: pd.DataFrame = table.to_pandas(split_blocks=True, self_destruct=True)
    # A named index becomes a column; unnamed row numbers are dropped.
    frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
    return decimals_as_numbers(frame)
