"""How far a question may go: the largest score that its theta gives over the declared ranges.

Exact sums at a point that the server chose tell of single rows where the scores are steep: at
theta = 1e7 (x_0 - c) every row counts as 0 or 1, and two points c with one row between them differ
by that row. So a silo answers only up to `maximum_score`. The score is bounded through what is
declared of the columns, never through rows: a refusal that depends on rows would tell of them.

    number with bounds      what the bounds are encoded as
    number without          ten of the encoder's deviations around its mean
    category, step          each value
    lr                      exactly: every column reaches its end independently of the others
    dense layers with ReLU  intervals, layer by layer: never too small
    own models              the largest |parameter| instead
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data.encoder import Encoder
from fairsilo.data.hot import width_of
from fairsilo.data.schema import Number
from fairsilo.model.base import Model
from fairsilo.network.encoding import encoder_of
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Ask, Refusal
from fairsilo.question import Problem

DEVIATIONS = 10.0
"""Where a number without declared bounds is taken to end."""


def check_scores(settings: Settings, agreed: FederationFile, problem: Problem, ask: Ask) -> None:
    """Refuse a theta that is too steep. Under differential privacy clipping and noise do this."""
    theta = getattr(ask.question, "theta", None)
    if agreed.dp is not None or theta is None or not theta.size:
        return
    assert problem.schema is not None
    score = largest_score(problem.model, theta, encoder_of(problem.schema, ask.scalings))
    if not score <= settings.maximum_score:
        raise Refusal(
            f"theta of the question {ask.kind!r} is too steep: scores reach {score:.4g} over the "
            f"declared ranges of the columns, and this silo answers up to "
            f"{settings.maximum_score:g} (maximum_score)"
        )


def largest_score(model: Model, theta: Floats, encoder: Encoder, named: bool = False) -> float:
    """The largest |score| of any row within the declared ranges, or more; `named`: of rows whose
    categories have the values that are named, neither others nor none."""
    layers = _layers(model, theta)
    if not layers:
        return float(np.abs(theta).max(initial=0.0))
    (bias, weight), *more = layers
    low, high = reach(encoder, weight, bias, named)
    for bias, weight in more:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        low, high = low @ up + high @ down + bias, high @ up + low @ down + bias
    return float(np.maximum(-low, high).max())


def reach(
    encoder: Encoder, weight: Floats, bias: Floats, named: bool = False
) -> tuple[Floats, Floats]:
    """The least and the largest of x @ weight + bias, (units,) each, over the declared ranges."""
    low, high, start = bias, bias, 0
    for corners in _blocks(encoder, named):
        values = corners @ weight[start : start + corners.shape[1]]
        low, high = low + values.min(axis=0), high + values.max(axis=0)
        start += corners.shape[1]
    return low, high


def _blocks(encoder: Encoder, named: bool) -> Iterator[Floats]:
    """For each feature the corners of what its cells are encoded as, (corners, columns)."""
    if encoder.binned is not None:
        yield from (np.eye(width + (not named), width) for width in encoder.widths)
        return
    scalings = iter(encoder.scalings)
    for feature in encoder.schema.features:
        if isinstance(feature, Number):
            one = next(scalings)
            ends = np.array([-DEVIATIONS, DEVIATIONS])
            if feature.bounds is not None:
                ends = (np.array(feature.bounds) - one.mean) / one.scale
            # A missing number is encoded as 0.
            corners = np.array([*ends, 0.0])[:, None]
            yield np.hstack([corners, [[0.0], [0.0], [1.0]]]) if one.missing else corners
        else:
            width = width_of(feature)
            # Without a column for them, unknown values are zero in every column.
            corners = np.eye(width + (not feature.other), width)
            yield corners[: len(feature.values)] if named else corners


def _layers(model: Model, theta: Floats) -> list[tuple[Floats, Floats]]:
    """Bias and weight of each dense layer, as theta has them; none where the model is another."""
    if model.linear:
        matrix = theta.reshape(-1, model.outputs)
        return [(matrix[0], matrix[1:])]
    if not model.relu:
        return []
    params = model.unravel(theta)
    return [(np.asarray(one["bias"]), np.asarray(one["weight"])) for one in params]
