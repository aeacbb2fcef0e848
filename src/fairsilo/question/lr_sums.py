"""The sums of logistic regression in NumPy: the twin of `sums.rows.row_sums`.

It needs no compiler, so a silo answers its first question at once.
"""

from functools import reduce
from operator import add

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table, gram, pulled
from fairsilo.model.scores import linear_scores, losses_of, probabilities_of, slopes_of
from fairsilo.predictor.base import HALF, labels_of

SHARPNESS = 2.0
"""As in `model.loss`: how much steeper the smooth error is than the probability."""
BLOCK = 1 << 20
"""Rows that are summed at a time, so that what is in between stays small."""


def linear_sums(
    order: str,
    x: Table,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    classes: int,
    measure: str = "loss",
    cut: float = HALF,
) -> Floats:
    """L, D, gradients and the triangle of the Hessian, as one vector (see `round.unflatten`)."""
    parts = [slice(start, start + BLOCK) for start in range(0, len(y) or 1, BLOCK)]
    each = (
        _sums(order, x[b], y[b], w[b], v[:, b], theta, mu, classes, measure, cut) for b in parts
    )
    return reduce(add, each)


def _sums(
    order: str,
    x: Table,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    classes: int,
    measure: str,
    cut: float,
) -> Floats:
    """`linear_sums` of one block."""
    scores = linear_scores(theta, x, classes)
    outputs, p = scores.shape[1], probabilities_of(scores)
    losses, slope = losses_of(scores, y), slopes_of(p, y, scores.shape[1])
    bend = _curvature(p, outputs)
    gaps, tilt, curve = v @ losses, slope, bend
    if measure == "rate":
        smooth, tilt, curve = _smooth_error(scores - np.log(cut / (1 - cut)), y)
        gaps = np.concatenate([v @ (labels_of(p, cut) != y), v @ smooth])
    pushed = mu @ v

    def gradient(weights: Floats, slopes: Floats) -> Floats:
        weighted = weights[:, None] * slopes
        return np.vstack([weighted.sum(axis=0), pulled(x, weighted)]).reshape(-1)

    parts = [np.array([w @ losses]), gaps, gradient(w, slope)]
    if order == "lagrangian":
        parts[2] = parts[2] + gradient(pushed, tilt)
        return np.concatenate(parts)
    parts += [gradient(row, tilt) for row in v]
    if order == "second":
        both = w[:, None, None] * bend + pushed[:, None, None] * curve
        parts.append(_triangle(x, both))
    return np.concatenate(parts)


def _curvature(p: Floats, outputs: int) -> Floats:
    """d^2 loss / d score^2, (n, outputs, outputs)."""
    if outputs == 1:
        return (p[:, 0] * p[:, 1])[:, None, None]
    bend: Floats = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    return bend[:, -outputs:, -outputs:]


def _smooth_error(scores: Floats, y: Ints) -> tuple[Floats, Floats, Floats]:
    """Value, slope and curvature in the scores of q_j = 1 - softmax(SHARPNESS * scores_j)[y_j]."""
    outputs, p = scores.shape[1], probabilities_of(SHARPNESS * scores)
    away = np.eye(p.shape[1])[y] - p
    right = p[np.arange(len(y)), y]
    slope = -SHARPNESS * right[:, None] * away
    bend = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    bend = SHARPNESS**2 * right[:, None, None] * (bend - away[:, :, None] * away[:, None, :])
    return 1 - right, slope[:, -outputs:], bend[:, -outputs:, -outputs:]


def _triangle(x: Table, bend: Floats) -> Floats:
    """sum_j (z_j z_j') x bend_j with z_j = (1, x_j), one triangle of the matrix, row by row."""
    inputs, outputs = 1 + x.shape[1], bend.shape[1]
    hess = np.empty((inputs, outputs, inputs, outputs))
    for a in range(outputs):
        for b in range(a + 1):
            hess[:, a, :, b] = hess[:, b, :, a] = gram(x, bend[:, a, b])
    size = inputs * outputs
    return hess.reshape(size, size)[np.triu_indices(size)]
