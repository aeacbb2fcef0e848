"""Rows as differential privacy reads them: each by itself, as declared, and none refused.

One row must not change what becomes of another, nor whether there is an answer at all. So a number
that cannot be read is a missing one, and a row of no declared class or group is no row.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.arrays import Ints
from fairsilo.data.columns import column, positions, readable
from fairsilo.data.dates import days
from fairsilo.data.groups import NO_GROUP, group_of
from fairsilo.data.schema import Category, Schema

Words = NDArray[np.uint64]
PARTS = ("train", "test")
"""The words of a split column."""


def declared_rows(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Ints, Ints]:
    """The rows of a declared class and group with their indices; numbers are numbers."""
    y = positions(column(frame, schema.label), schema.classes)
    s = positions(group_of(frame, schema), schema.groups)
    if NO_GROUP in schema.groups:
        s = np.where(s == -1, schema.groups.index(NO_GROUP), s)
    known = (y >= 0) & (s >= 0)
    read = frame[known].reset_index(drop=True)
    return (
        read.assign(**{name: _readable(read, name, schema) for name in schema.numbers}),
        y[known],
        s[known],
    )


def parts_of(frame: pd.DataFrame, name: str) -> Ints:
    """0 for a training row, 1 for a test row, -1 for another word in the split column."""
    words = [str(cell).strip().lower() for cell in column(frame, name)]
    return np.array([PARTS.index(word) if word in PARTS else -1 for word in words], np.int64)


def uniforms(frame: pd.DataFrame, y: Ints, s: Ints, schema: Schema, seed: int) -> Ints:
    """Two random numbers below 2^63 for every row, (2, rows), from the seed and its own cells."""
    cells = {"class": y, "group": s} | {
        f"feature {f.name}": positions(column(frame, f.name), f.values)
        if isinstance(f, Category)
        else _readable(frame, f.name, schema)
        for f in schema.features
    }
    own = np.asarray(pd.util.hash_pandas_object(pd.DataFrame(cells), index=False), np.uint64)
    start = own ^ _mixed(np.array([seed], np.uint64))
    drawn = [_mixed(start + np.uint64(k)) >> np.uint64(1) for k in (1, 2)]
    return np.array(drawn).astype(np.int64)


def _mixed(words: Words) -> Words:
    """The output function of splitmix64: every bit depends on all bits."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _readable(frame: pd.DataFrame, name: str, schema: Schema) -> NDArray[np.float64]:
    series = column(frame, name)
    return days(series, schema.dates[name]) if name in schema.dates else readable(series)
