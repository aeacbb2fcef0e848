"""What rows weigh: a column with weights, such as a survey's, and weights of classes."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data.columns import column, readable
from fairsilo.errors import FairSiloError

BALANCED = "balanced"
ClassWeights = str | tuple[tuple[str, float], ...]
"""BALANCED, or classes and what a row of each weighs; the others weigh one."""


def weights_in(frame: pd.DataFrame, name: str) -> Floats:
    """The weights of all rows: finite, not negative, not all zero."""
    series = column(frame, name)
    values = readable(series)
    for wrong, why in ((np.isnan(values), "not a finite number"), (values < 0, "negative")):
        if wrong.any():
            place = int(np.argmax(wrong))
            cell = series.iloc[place]
            told = "empty" if pd.isna(cell) else str(cell)
            raise FairSiloError(
                f"the weight in column {name!r} is {why} in {int(wrong.sum())} rows, first in row "
                f"{place + 1} ({told}): correct it, or leave the rows out"
            )
    if not values.any():
        raise FairSiloError(
            f"all weights in column {name!r} are zero: give some rows a weight, or leave out "
            "`weight`"
        )
    return values


def weighty(frame: pd.DataFrame, name: str | None) -> tuple[pd.DataFrame, Floats | None]:
    """The rows of a weight above zero, and what they weigh; without a column all rows."""
    if name is None:
        return frame, None
    weight = weights_in(frame, name)
    if weight.all():
        return frame, weight
    return frame[weight > 0].reset_index(drop=True), weight[weight > 0]


def weightless(rows: int, kept: int, name: str) -> str:
    """What is said where some rows have the weight 0."""
    return (
        f"{rows - kept:,} of {rows:,} rows have the weight 0 ({name}): they are left out, of "
        "training and of test"
    )


def declared_weights(frame: pd.DataFrame, name: str, maximum: float) -> Floats:
    """Weights as differential privacy reads them: shares of the declared maximum, none refused.

    A weight above it counts as the maximum, one that cannot be read or is negative as zero. So no
    row counts for more than one, and what noise hides is the same as without weights.
    """
    return np.clip(np.nan_to_num(readable(column(frame, name))), 0, maximum) / maximum


def class_weights(given: ClassWeights, classes: Sequence[str]) -> tuple[float, ...] | str:
    """A weight for every class, or BALANCED."""
    if isinstance(given, str):
        return given
    named = dict(given)
    for name in named:
        if name not in classes:
            raise FairSiloError(
                f"`class_weight` names {name!r}, which is no class: the classes are "
                f"{', '.join(classes)}"
            )
    return tuple(named.get(name, 1.0) for name in classes)
