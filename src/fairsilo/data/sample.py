"""Class and group of every row, as numbers."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import column, positions, vocabulary
from fairsilo.data.groups import NO_GROUP, group_of
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError


def build_labels(
    frame: pd.DataFrame, schema: Schema
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return class index and group index of every row, in the order of the schema."""
    y = _indices(column(frame, schema.label), schema.label, "class", schema.classes)
    return y, groups_in(frame, schema)


def groups_in(frame: pd.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """The group index of every row; a row without a group needs the group of those."""
    series = group_of(frame, schema)
    place = positions(series, schema.groups)
    if NO_GROUP in schema.groups:
        place = np.where(place == -1, schema.groups.index(NO_GROUP), place)
    return _checked(place, series, schema.group, "group", schema.groups)


def _indices(
    series: "pd.Series[Any]", name: str, noun: str, values: tuple[str, ...]
) -> NDArray[np.int64]:
    return _checked(positions(series, values), series, name, noun, values)


def _checked(
    place: NDArray[np.int64],
    series: "pd.Series[Any]",
    name: str,
    noun: str,
    values: tuple[str, ...],
) -> NDArray[np.int64]:
    missing = int(np.sum(place == -1))
    if missing:
        raise FairSiloError(
            f"column {name!r} is empty in {missing} rows; fill these cells or remove the rows"
        )
    if np.any(place == -2):
        unknown = next(v for v in vocabulary(series[place == -2]) if v not in values)
        raise FairSiloError(
            f"column {name!r} holds the unknown {noun} {unknown!r}; known are {', '.join(values)}"
        )
    return place
