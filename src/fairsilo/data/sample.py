"""The arrays that training works on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import column, positions, vocabulary
from fairsilo.data.groups import group_of
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError


@dataclass(frozen=True, eq=False)
class Sample:
    """Encoded rows with class index, group index and client index (-1 is a test row)."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    s: NDArray[np.int64]
    client: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {len(self.x), len(self.y), len(self.s), len(self.client)}
        if len(lengths) != 1:
            raise ValueError("x, y, s and client must have one entry per row each")


def build_labels(
    frame: pd.DataFrame, schema: Schema
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return class index and group index of every row, in the order of the schema."""
    y = _indices(column(frame, schema.label), schema.label, "class", schema.classes)
    s = _indices(group_of(frame, schema), schema.group, "group", schema.groups)
    return y, s


def _indices(
    series: "pd.Series[Any]", name: str, noun: str, values: tuple[str, ...]
) -> NDArray[np.int64]:
    place = positions(series, values)
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
