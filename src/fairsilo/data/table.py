"""Read a user's table: CSV, Parquet, or a folder with one such file per client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data import csv_file
from fairsilo.data.asked import Asked, Choice, everything
from fairsilo.data.columns import codes_and_texts, is_number
from fairsilo.data.dialect import Dialect
from fairsilo.data.schema import Schema
from fairsilo.data.texts import Remarks
from fairsilo.errors import FairSiloError

CLIENT_COLUMN = "client"
"""The column added when reading a folder: the file, and so the client, that a row is from."""

SUFFIXES = (".csv", ".csv.gz", ".parquet")
Columns = dict[str, Any]
"""Of a file: `pandas.Series`, and `Remarks` where texts were only counted."""


def read_table(
    path: str | Path,
    schema: Schema | None = None,
    dialect: Dialect | None = None,
    choice: Choice = everything,
) -> pd.DataFrame:
    """Read a .csv, .csv.gz or .parquet file, or all such files of a folder, one per client.

    A folder's table has the column `client` with the file names without their suffix. `choice` says
    which columns are read.

    Texts are categories, whose codes are all that is kept of their cells. In CSV an empty cell is
    missing. The usual words for a missing value (NA, NaN, None, null and the like) are missing too
    in a column that otherwise holds numbers or true/false, or nothing; in a text column they are
    ordinary text, since a group may have that name. Columns declared in `schema` have the declared
    type, and each of their cells is read by itself. `dialect`: how CSV files are written. A number
    may have a percent sign; a number that begins with a further zero is a text, such as 00012.
    """
    return read_features(path, choice, schema, dialect)[0]


def read_features(
    path: str | Path,
    choice: Choice,
    schema: Schema | None = None,
    dialect: Dialect | None = None,
) -> tuple[pd.DataFrame, dict[str, Remarks]]:
    """`read_table`, and what is known of the features whose texts were too many to keep."""
    path, dialect = Path(path), dialect or Dialect()
    if path.is_dir():
        columns = _read_folder(path, choice, schema, dialect)
    elif not path.exists():
        raise FairSiloError(f"there is no file {path}; check the path")
    else:
        names = _names_of(path, dialect)
        columns = _read_file(path, names, choice(names), schema, dialect)
    remarks = {name: one for name, one in columns.items() if isinstance(one, Remarks)}
    kept = {name: one for name, one in columns.items() if name not in remarks}
    return pd.DataFrame(kept, copy=False), remarks


def _suffix(path: Path) -> str | None:
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def _read_folder(folder: Path, choice: Choice, schema: Schema | None, dialect: Dialect) -> Columns:
    # A file's column goes as soon as it is part of the whole.
    parts = _read_files(folder, choice, schema, dialect)
    names = list(next(iter(parts.values())))
    sizes = [_rows_of(part) for part in parts.values()]
    columns = {name: _joined([part.pop(name) for part in parts.values()]) for name in names}
    owner = np.repeat(np.arange(len(sizes)), sizes)
    columns[CLIENT_COLUMN] = pd.Categorical.from_codes(owner, pd.Index(list(parts), dtype=object))
    return columns


def _rows_of(columns: Columns) -> int:
    return next((len(one) for one in columns.values() if not isinstance(one, Remarks)), 0)


def _read_files(
    folder: Path, choice: Choice, schema: Schema | None, dialect: Dialect
) -> dict[str, Columns]:
    """The columns asked for of every file, which are alike, by the name of its client."""
    paths = sorted(p for p in folder.iterdir() if _suffix(p) and not p.name.startswith("."))
    if not paths:
        raise FairSiloError(
            f"folder {folder} has no .csv or .parquet file; put one per client there"
        )
    tables: dict[str, Columns] = {}
    first: list[str] = []
    for path in paths:
        client = path.name[: -len(_suffix(path) or "")]
        if client in tables:
            raise FairSiloError(f"two files in {folder} are named {client!r}; keep one per client")
        names = _names_of(path, dialect)
        first = first or names
        different = sorted(set(first) ^ set(names))
        if different:
            raise FairSiloError(
                f"column {different[0]!r} is in only one of the files of clients "
                f"{next(iter(tables))!r} and {client!r}; give all files the same columns"
            )
        if CLIENT_COLUMN in names:
            raise FairSiloError(
                f"the files in {folder} have a column {CLIENT_COLUMN!r} already, which is the name "
                "for the file a row is from; rename it"
            )
        asked = choice([*first, CLIENT_COLUMN])
        tables[client] = _read_file(path, names, asked, schema, dialect)
    typed = [] if schema is None else [*schema.vocabularies, *schema.numbers]
    (first_name, columns), *others = tables.items()
    for name, table in others:
        _check_alike(first_name, columns, name, table, typed)
    return tables


def _joined(parts: list[Any]) -> Any:
    """A column of several files: categories stay codes, of the texts of all files."""
    if any(isinstance(part, Remarks) for part in parts):
        whole = Remarks()
        for part in parts:
            whole.join(part)
        return whole
    if not any(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
        return pd.concat(parts, ignore_index=True)
    each = [codes_and_texts(part) for part in parts]
    texts = sorted({text for _, found in each for text in found})
    place = {text: k for k, text in enumerate(texts)}
    codes = [np.array([*map(place.get, found), -1])[own] for own, found in each]
    return pd.Categorical.from_codes(np.concatenate(codes), pd.Index(texts, dtype=object))


def _check_alike(
    first_name: str, first: Columns, name: str, table: Columns, typed: list[str]
) -> None:
    for column in [one for one in first if one not in typed]:
        both = (first[column], table[column])
        numeric = {not isinstance(one, Remarks) and is_number(one) for one in both}
        # A column without any value has no type to compare.
        if len(numeric) > 1 and not any(map(_is_empty, both)):
            raise FairSiloError(
                f"column {column!r} is numeric in only one of the files of clients {first_name!r} "
                f"and {name!r}; correct the text among its numbers"
            )


def _is_empty(column: Any) -> bool:
    return not isinstance(column, Remarks) and bool(column.isna().all())


@contextmanager
def _as_errors(path: Path) -> Iterator[str]:
    """What a file is, by its suffix; errors of the system are sentences."""
    suffix = _suffix(path)
    if suffix is None:
        raise FairSiloError(f"{path} is neither .csv, .csv.gz nor .parquet; convert it to one")
    try:
        if not path.stat().st_size:
            raise FairSiloError(f"{path} is empty; write a table to it")
        yield suffix
    except OSError as error:
        raise FairSiloError(f"cannot read {path} ({error.strerror}); check the path") from error


def _names_of(path: Path, dialect: Dialect) -> list[str]:
    """The names of a file's columns."""
    with _as_errors(path) as suffix:
        if suffix != ".parquet":
            return csv_file.names_of(path, suffix == ".csv.gz", dialect)
        from fairsilo.data import parquet_file

        names = parquet_file.names_of(path)
        csv_file.check_names(path, names)
        return names


def _read_file(
    path: Path, names: Sequence[str], asked: Asked, schema: Schema | None, dialect: Dialect
) -> Columns:
    with _as_errors(path) as suffix:
        if suffix != ".parquet":
            packed = suffix == ".csv.gz"
            found = csv_file.read_csv(path, packed, names, asked, schema, dialect)
        else:
            from fairsilo.data.parquet_file import read_parquet

            found = read_parquet(path, asked)
    return {
        name: one if isinstance(one, Remarks) else pd.Series(one, copy=False)
        for name, one in found.items()
    }
