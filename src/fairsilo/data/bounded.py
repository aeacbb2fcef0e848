"""Fit the encoder from sums with bounded sensitivity, as differential privacy needs.

Every number is first scaled to u in [-1, 1] by its declared bounds. A silo's vector is

    rows, then for every numeric column: missing cells; sum of u; sum of u^2

One row adds 1 to `rows` and, per column, either 1 to `missing` or (u, u^2), so its vector has at
most the length sqrt(1 + 2 columns). Mean and deviation follow from the sums, noisy or not.

For a model with steps it is instead the counts of every number over a grid within its bounds, and
of every category by value: one row adds 1 for each feature, so the length is sqrt(features).
"""

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.binned import FEWER_STEPS, Histograms, counted
from fairsilo.data.dates import measured
from fairsilo.data.encoder import Encoder, Scaling
from fairsilo.data.schema import Number, Schema
from fairsilo.dp import Message, Plan
from fairsilo.errors import FairSiloError

CELLS = 128
"""Of a grid within the bounds. A finer one finds finer steps, from cells of more noise each."""
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


def bounded_grids(schema: Schema) -> NDArray[np.float64]:
    """The inner edges of every number's grid, even within its bounds, one after the other."""
    u = np.linspace(-1, 1, CELLS + 1)[1:-1]
    grids = [middle + half * u for _, middle, half in bounds_of(schema)]
    return np.concatenate([*grids, np.zeros(0)])


def histogram_message(frame: pd.DataFrame, schema: Schema, plan: Plan) -> Message:
    """One silo's counts for finding steps, before noise is added."""
    counts = counted(frame, schema, bounded_grids(schema))
    return Message("histograms", counts, histogram_sensitivity(schema), plan.encoder)


def histogram_sensitivity(schema: Schema) -> float:
    """The largest length of one row's counts: one for each feature."""
    return math.sqrt(len(schema.features))


def encoder_in_steps(
    schema: Schema, counts: Histograms, deviation: float, outputs: int
) -> tuple[Encoder, tuple[NDArray[np.float64], ...]]:
    """The encoder, given the noise's standard deviation in each count; the rows in its columns."""
    heard = counts.heard(deviation)
    scalings = []
    for edges, own, missing in zip(heard.edges, heard.numbers, heard.missing, strict=True):
        # The middles of the cells, whose width is that of the inner ones.
        places, rows = np.append(edges, 2 * edges[-1] - edges[-2]), max(float(own.sum()), 1.0)
        places = places - (edges[1] - edges[0]) / 2
        mean = float(own @ places) / rows
        variance = float(own @ np.square(places - mean)) / rows
        spread = math.sqrt(max(variance, (edges[1] - edges[0]) ** 2))
        scalings.append(Scaling(mean, spread, bool(missing)))
    binned = heard.binned(schema, outputs, FEWER_STEPS)
    return Encoder(schema, tuple(scalings), binned), heard.rows(binned, schema)
