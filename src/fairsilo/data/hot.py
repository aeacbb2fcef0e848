"""The one-hot columns of a category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairsilo.data.columns import positions
from fairsilo.data.schema import Category

if TYPE_CHECKING:
    import pandas as pd


def width_of(feature: Category) -> int:
    """How many columns a category has."""
    return len(feature.values) + feature.missing + feature.other


def labels_of(feature: Category) -> tuple[str, ...]:
    """The values that the columns stand for."""
    return (
        *feature.values,
        *("(missing)",) * feature.missing,
        *("(other)",) * feature.other,
    )


def hot(series: pd.Series[Any], feature: Category) -> NDArray[np.int64]:
    """The one-hot column of each row within the feature, -1 for all zeros."""
    size = len(feature.values)
    other = size + feature.missing if feature.other else -1
    missing = size if feature.missing else other
    place = positions(series, feature.values)
    return np.where(place >= 0, place, np.where(place == -1, missing, other))
