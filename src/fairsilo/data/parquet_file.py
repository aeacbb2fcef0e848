"""Read a Parquet file block by block: of the columns asked for, and of no other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fairsilo.data.asked import Asked
from fairsilo.data.dialect import Dialect
from fairsilo.data.texts import Texts, category
from fairsilo.errors import FairSiloError

BLOCK = 1 << 16
"""Rows that are read at a time."""
CODED = 4.0
"""Bytes that a cell takes at most in a file where a code of a category stands for it."""


def names_of(path: Path) -> list[str]:
    """The names of all columns: a named index is one, row numbers without a name are none."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        # Names that occur twice are for the caller to refuse.
        return list(_places(file)) if len({*names}) == len(names) else names


def read_parquet(path: Path, asked: Asked) -> dict[str, Any]:
    """The columns asked for. A column whose texts were only counted is `Remarks`."""
    with _opened(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        coded = [name for name in schema.names if _is_coded(file, name)]
        every = _places(file)
    if not rows:
        raise FairSiloError(f"{path} has column names but no rows; add rows")
    places = {name: at for name, at in every.items() if name in asked.columns}
    columns: dict[str, Any] = {
        name: at if isinstance(at, range) else _column(schema.field(at), name in asked.features)
        for name, at in places.items()
    }
    stored = {name: at for name, at in places.items() if isinstance(at, str)}
    with _opened(path, coded) as file:
        # Not in several threads, whose blocks wait in memory.
        for batch in file.iter_batches(BLOCK, columns=[*stored.values()], use_threads=False):
            for name, at in stored.items():
                columns[name].add(batch[at])
    # Each goes as soon as pandas has it.
    return {name: _finished(columns.pop(name)) for name in places}


def every_batch(path: Path) -> Iterator[pa.RecordBatch]:
    """All cells of all columns, block by block."""
    with _opened(path) as file:
        yield from file.iter_batches(BLOCK, use_threads=False)


@contextmanager
def _opened(path: Path, coded: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
    try:
        # ParquetFile, because read_table could read the folder's name as a partition.
        options = {"memory_map": True, "pre_buffer": False}
        with pq.ParquetFile(path, read_dictionary=[*coded], **options) as file:
            yield file
    except (pa.ArrowException, OSError):
        raise FairSiloError(f"{path} is not a Parquet file; write it again") from None


def _places(file: pq.ParquetFile) -> dict[str, str | range]:
    """Every column's field in the file, or its numbers; as pandas has it, the index comes first."""
    schema, rows = file.schema_arrow, file.metadata.num_rows
    about = schema.pandas_metadata or {}
    unnamed = {one["field_name"] for one in about.get("columns", ()) if one["name"] is None}
    places: dict[str, str | range] = {}
    for one in about.get("index_columns", ()):
        if isinstance(one, str) and one in schema.names and one not in unnamed:
            places[one] = one
        elif isinstance(one, dict) and one.get("name") is not None:
            numbers = range(one["start"], one["stop"], one["step"])
            # Of a table that was cut they are those of the rows before: not what is in the file.
            places |= {one["name"]: numbers} if len(numbers) == rows else {}
    return places | {name: name for name in schema.names if name not in unnamed}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_coded(file: pq.ParquetFile, name: str) -> bool:
    """Whether the file has codes of few texts: these are read as they stand.

    A dictionary of many texts would be in memory whole.
    """
    if not _is_text(file.schema_arrow.field(name).type):
        return False
    size = cells = 0
    for k in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(k)
        for j in range(group.num_columns):
            column = group.column(j)
            if column.path_in_schema == name:
                size, cells = size + column.total_uncompressed_size, cells + column.num_values
    return size <= CODED * cells


class _Cells:
    """A column of anything but texts."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind, self.blocks = kind, list[Any]()

    def add(self, block: pa.Array) -> None:
        """The cells of further rows; exact decimals become numbers."""
        exact = pa.types.is_decimal(self.kind)
        self.blocks.append(pd.to_numeric(block.to_pandas()) if exact else block)

    def series(self) -> Any:
        if pa.types.is_decimal(self.kind):
            return np.concatenate(self.blocks, dtype=np.float64)
        if pa.types.is_null(self.kind):
            # As in CSV: beside another file's numbers these are missing numbers.
            return np.full(sum(map(len, self.blocks)), np.nan)
        return pa.chunked_array(self.blocks).unify_dictionaries().to_pandas()


def _column(field: pa.Field, feature: bool) -> Texts | _Cells:
    kind = field.type
    if _is_text(kind):
        return Texts(feature, (), Dialect())
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        return Texts(False, (), Dialect())
    return _Cells(kind)


def _finished(column: Any) -> Any:
    """A column as pandas has it."""
    if isinstance(column, range):
        return np.arange(column.start, column.stop, column.step)
    if isinstance(column, _Cells):
        return column.series()
    return column.remarks or category(*column.result())
