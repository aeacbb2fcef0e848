"""A silo's rows: which are for training and which for testing, and by what they are known again.

Under differential privacy one row must not change what becomes of another, nor whether the silo
answers at all. So nothing is refused there: a number that cannot be read is a missing one, and a
row of no known class, group or part is no row. `fairsilo flower check` tells the operator of both.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.data.columns import column, distinct, positions, readable
from fairsilo.data.dates import days
from fairsilo.data.groups import NO_GROUP, group_of
from fairsilo.data.sample import build_labels
from fairsilo.data.schema import Schema
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.settings import Settings
from fairsilo.partition import TEST, draw, split_column
from fairsilo.question import Part

PARTS = ("train", "test")


def split_rows(
    frame: pd.DataFrame, agreed: FederationFile, schema: Schema | None = None
) -> tuple[Part, Part]:
    """Training and test rows, not yet encoded: as the split column says, else drawn with the
    federation file's seed. `schema`: the federation's own unless small groups were pooled."""
    if agreed.dp is not None:
        return _split_privately(frame, agreed)
    y, s = build_labels(frame, schema or agreed.table)
    if agreed.split is not None:
        is_test = split_column(*distinct(column(frame, agreed.split)), column=agreed.split)
    else:
        drawn = draw(y, kind="iid", clients=1, test_fraction=agreed.test_fraction, seed=agreed.seed)
        is_test = np.equal(drawn, TEST)
    return _part(frame, y, s, ~is_test), _part(frame, y, s, is_test)


def _split_privately(frame: pd.DataFrame, agreed: FederationFile) -> tuple[Part, Part]:
    schema = agreed.table
    assert agreed.split is not None
    named = [column(frame, name) for name in schema.group_columns or (schema.group,)]
    if NO_GROUP not in schema.groups:
        frame = frame[np.logical_and.reduce([series.notna() for series in named])]
    y = positions(column(frame, schema.label), schema.classes)
    s = positions(group_of(frame, schema), schema.groups)
    if NO_GROUP in schema.groups:
        s = np.where(s == -1, schema.groups.index(NO_GROUP), s)
    words = np.array([str(cell).strip().lower() for cell in column(frame, agreed.split)], object)
    read = frame.assign(**{name: _readable(frame, name, schema) for name in schema.numbers})
    train, test = (_part(read, y, s, (y >= 0) & (s >= 0) & np.equal(words, part)) for part in PARTS)
    return train, test


def _readable(frame: pd.DataFrame, name: str, schema: Schema) -> npt.NDArray[np.float64]:
    """Every cell by itself: a number, the days of a date, or missing."""
    series = column(frame, name)
    return days(series, schema.dates[name]) if name in schema.dates else readable(series)


def _part(frame: pd.DataFrame, y: Ints, s: Ints, chosen: npt.NDArray[np.bool_]) -> Part:
    rows = frame[chosen].reset_index(drop=True)
    return Part(y[chosen], s[chosen], np.zeros((len(rows), 0)), rows)


def digest_of(frame: pd.DataFrame) -> str:
    """Of all rows in their order."""
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()


def file_digest(settings: Settings) -> str | None:
    """Of the table's file; None where the rows come from a database and may always be new."""
    if settings.data is None or not settings.data.is_file():
        return None
    with settings.data.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
