"""A number for each row of a table, of all its cells as they are written.

By these numbers a silo knows its rows again. They do not depend on what is asked of the rows (which
columns are read, and as what), and no row's number on other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fairsilo.data.csv_file import raw_batches
from fairsilo.data.dialect import Dialect
from fairsilo.data.parquet_file import every_batch

Hashes = npt.NDArray[np.uint64]
PRIME = np.uint64(0x100000001B3)


def of_file(path: Path, dialect: Dialect) -> Hashes:
    """Of the rows of a CSV or Parquet file, in their order."""
    batches = every_batch(path) if path.suffix.lower() == ".parquet" else raw_batches(path, dialect)
    found = [_combined(map(_texts, batch.columns), batch.num_rows) for batch in batches]
    return np.concatenate([np.zeros(0, np.uint64), *found])


def of_frame(frame: pd.DataFrame) -> Hashes:
    """Of the rows that a database gave."""
    columns = (pa.array(map(_text, frame[name].tolist()), pa.string()) for name in frame)
    return _combined(columns, len(frame))


def _text(cell: Any) -> str | None:
    """The same of a whole number whatever else its column holds, which makes it a float or not."""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else None if math.isnan(cell) else str(cell)
    return None if cell is None or cell is pd.NaT or cell is pd.NA else str(cell)


def _texts(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        # Lists and the like, of which nothing is ever asked.
        return pa.array([str(cell) for cell in column.to_pylist()], pa.string())


def _combined(columns: Iterable[pa.Array], rows: int) -> Hashes:
    """One number of the cells of each row; their places count."""
    found = np.zeros(rows, np.uint64)
    for hashes in map(_hashed, columns):
        found = (found ^ hashes) * PRIME
    return found


def _hashed(column: pa.Array) -> Hashes:
    coded = column.dictionary_encode()
    texts = np.array([*coded.dictionary.to_pylist(), None], dtype=object)[:-1]
    hashes = np.append(pd.util.hash_array(texts, categorize=False), np.uint64(0))
    codes = coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.asarray(hashes[codes], np.uint64)
