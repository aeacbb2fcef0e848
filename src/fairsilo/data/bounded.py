"""Fit the encoder from sums with bounded sensitivity, as differential privacy needs.

Every number is first scaled to u in [-1, 1] by its declared bounds. A silo's vector is

    rows, then for every numeric column: missing cells; sum of u; sum of u^2

One row adds 1 to `rows` and, per column, either 1 to `missing` or (u, u^2), so its vector has at
most the length sqrt(1 + 2 columns). Mean and deviation follow from the sums, noisy or not.
"""

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.dates import measured
from fairsilo.data.encoder import Encoder, Scaling
from fairsilo.data.schema import Number, Schema
from fairsilo.dp import Message, Plan
from fairsilo.errors import FairSiloError

SURE = 4.0
"""Counts and variances below this many standard deviations of the noise are taken for noise."""


def bounds_of(schema: Schema) -> tuple[tuple[str, float, float], ...]:
    """Name, middle and half width of every numeric column; a column without bounds is an error."""
    found = []
    for feature in schema.features:
        if isinstance(feature, Number):
            if feature.bounds is None:
                raise FairSiloError(
                    f"column {feature.name!r} has no declared bounds, which differential privacy "
                    'needs: add "bounds": [lowest, highest] to it in the file given by `schema`'
                )
            low, high = feature.bounds
            found.append((feature.name, (low + high) / 2, (high - low) / 2))
    return tuple(found)


def sensitivity(schema: Schema) -> float:
    """The largest length of one row's vector."""
    return math.sqrt(1 + 2 * len(schema.numbers))


def bounded_sums(frame: pd.DataFrame, schema: Schema) -> NDArray[np.float64]:
    """The vector of one silo's rows."""
    parts = [np.array([float(len(frame))])]
    features = [one for one in schema.features if isinstance(one, Number)]
    for feature, (_, middle, half) in zip(features, bounds_of(schema), strict=True):
        values = measured(frame, feature)
        u = np.clip((values - middle) / half, -1, 1)
        missing = np.isnan(u)
        u = np.where(missing, 0.0, u)
        parts.append(np.array([missing.sum(), u.sum(), np.square(u).sum()]))
    return np.concatenate(parts)


def encoder_message(frame: pd.DataFrame, schema: Schema, plan: Plan) -> Message:
    """One silo's sums for fitting the encoder, before noise is added."""
    return Message("encoder", bounded_sums(frame, schema), sensitivity(schema), plan.encoder)


def encoder_of_sums(schema: Schema, sums: NDArray[np.float64], deviation: float) -> Encoder:
    """The encoder, given the noise's standard deviation in each sum.

    A variance below the noise is replaced by the largest one that the noise could hide: too small
    a scale would stretch the column, and its rows would be clipped.
    """
    rows = max(float(sums[0]), 1.0)
    scalings = []
    each = sums[1:].reshape(-1, 3)
    for (_, middle, half), (missing, total, squares) in zip(bounds_of(schema), each, strict=True):
        count = max(rows - max(missing, 0.0), 1.0)
        mean = float(np.clip(total / count, -1, 1))
        least = max(SURE * deviation / count, 1e-6)
        spread = math.sqrt(min(max(squares / count - mean**2, least), 1.0))
        indicator = bool(missing > SURE * deviation)
        scalings.append(Scaling(middle + half * mean, half * spread, indicator))
    return Encoder(schema, tuple(scalings))
