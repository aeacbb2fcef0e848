"""A silo's rows: which are for training and which for testing, and by what they are known again.

Under differential privacy one row must not change what becomes of another, nor whether the silo
answers at all, so nothing is refused there (`data/declared_rows.py`). `fairsilo flower check` tells
the operator of what could not be read.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.arrays import Floats, Ints
from fairsilo.data.columns import column, distinct
from fairsilo.data.declared_rows import declared_rows, parts_of
from fairsilo.data.dialect import Dialect
from fairsilo.data.row_hashes import Hashes, of_file, of_frame
from fairsilo.data.sample import build_labels
from fairsilo.data.schema import Schema
from fairsilo.data.table import read_table
from fairsilo.data.weights import declared_weights, weightless, weighty
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.settings import Settings
from fairsilo.partition import TEST, draw, split_column
from fairsilo.question import Part


def split_rows(
    frame: pd.DataFrame, agreed: FederationFile, schema: Schema | None = None
) -> tuple[Part, Part]:
    """Training and test rows, not yet encoded: as the split column says, else drawn with the
    federation file's seed. `schema`: the federation's own unless small groups were pooled."""
    if agreed.dp is not None:
        return _split_privately(frame, agreed)
    frame, weight = weighty(frame, agreed.weight)
    y, s = build_labels(frame, schema or agreed.table)
    if agreed.split is not None:
        is_test = split_column(*distinct(column(frame, agreed.split)), column=agreed.split)
    else:
        drawn = draw(y, kind="iid", clients=1, test_fraction=agreed.test_fraction, seed=agreed.seed)
        is_test = np.equal(drawn, TEST)
    return _part(frame, y, s, weight, ~is_test), _part(frame, y, s, weight, is_test)


def weightless_of(rows: int, train: Part, test: Part, agreed: FederationFile) -> tuple[str, ...]:
    """What the owner is told of rows that were left out for their weight; privately none is."""
    kept = len(train.y) + len(test.y)
    if agreed.weight is None or agreed.dp is not None or kept == rows:
        return ()
    return (weightless(rows, kept, agreed.weight),)


def _split_privately(frame: pd.DataFrame, agreed: FederationFile) -> tuple[Part, Part]:
    assert agreed.split is not None
    rows, y, s = declared_rows(frame, agreed.table)
    part = parts_of(rows, agreed.split)
    weight = None
    if agreed.weight is not None and agreed.maximum_weight is not None:
        weight = declared_weights(rows, agreed.weight, agreed.maximum_weight)
    return _part(rows, y, s, weight, part == 0), _part(rows, y, s, weight, part == 1)


def _part(
    frame: pd.DataFrame,
    y: Ints,
    s: Ints,
    weight: Floats | None,
    chosen: npt.NDArray[np.bool_],
) -> Part:
    rows = frame[chosen].reset_index(drop=True)
    own = None if weight is None else weight[chosen]
    return Part(y[chosen], s[chosen], np.zeros((len(rows), 0)), rows, own)


def digests_of(settings: Settings, frame: pd.DataFrame, agreed: FederationFile) -> tuple[str, str]:
    """By what all rows are known again, in their order; and those of which exact sums are opened.

    These are, under differential privacy, the test rows: whether others changed must not show. They
    stay the same rows in another order, as a query may give them, and where the federation file
    names fewer columns, classes or groups: else the same counts would pass for others.
    """
    hashes = _hashes_of(settings, frame)
    guarded = hashes
    if agreed.dp is not None:
        assert agreed.split is not None
        guarded = hashes[parts_of(frame, agreed.split) == 1]
    return _digest(hashes), _digest(np.sort(guarded))


def _hashes_of(settings: Settings, frame: pd.DataFrame) -> Hashes:
    """A number for each row; `frame`: what a database gave, and some columns of a file."""
    if settings.data is None:
        return of_frame(frame)
    dialect = Dialect(settings.sep, settings.decimal, settings.thousands)
    if settings.data.is_file():
        return of_file(settings.data, dialect)
    return of_frame(read_table(settings.data, dialect=dialect))


def _digest(hashes: Hashes) -> str:
    return hashlib.sha256(hashes.astype("<u8").tobytes()).hexdigest()


def file_digest(settings: Settings) -> str | None:
    """Of the table's file; None where the rows come from a database and may always be new."""
    if settings.data is None or not settings.data.is_file():
        return None
    with settings.data.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
