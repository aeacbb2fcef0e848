"""The sums of logistic regression in NumPy: the twin of `engine.sums.row_sums`.

A silo needs no JAX for them, which takes longer to import than all else that it answers with, and
as much memory. theta is laid out as the model lays it out: bias first, then the weights, feature by
feature, so that with a column of ones before x it is one matrix (1 + features, outputs).
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints


def scores_of(theta: Floats, x: Floats, classes: int) -> Floats:
    """Scores (n, outputs) of logistic regression: one for two classes, else one per class."""
    outputs = 1 if classes == 2 else classes
    matrix = theta.reshape(-1, outputs)
    scores: Floats = x @ matrix[1:] + matrix[0]
    return scores


def losses_of(scores: Floats, y: Ints) -> Floats:
    """Cross-entropy of every row."""
    if scores.shape[1] == 1:
        margin = np.where(y == 1, scores[:, 0], -scores[:, 0])
        return np.logaddexp(0.0, -margin)
    top = scores.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
    losses: Floats = log_sum - scores[np.arange(len(y)), y]
    return losses


def probabilities_of(scores: Floats) -> Floats:
    """Class probabilities (n, classes)."""
    if scores.shape[1] == 1:
        p = np.exp(-np.logaddexp(0.0, -scores[:, 0]))
        return np.stack([1 - p, p], axis=1)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = e / e.sum(axis=1, keepdims=True)
    return shares


def linear_sums(
    order: str,
    x: Floats,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    classes: int,
) -> Floats:
    """L, D, gradients and the triangle of the Hessian, as one vector (see `vector_length`)."""
    scores = scores_of(theta, x, classes)
    losses = losses_of(scores, y)
    p = probabilities_of(scores)
    if scores.shape[1] == 1:
        # d loss / d score.
        slope = (p[:, 1] - (y == 1))[:, None]
        bend = (p[:, 1] * p[:, 0])[:, None, None]
    else:
        slope = p.copy()
        slope[np.arange(len(y)), y] -= 1.0
        bend = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    z = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    mixed = w + mu @ v

    def gradient(weights: Floats) -> Floats:
        flat: Floats = (z.T @ (weights[:, None] * slope)).reshape(-1)
        return flat

    head = [np.array([w @ losses]), v @ losses]
    if order == "lagrangian":
        return np.concatenate([*head, gradient(mixed)])
    parts = [*head, gradient(w), *(gradient(row) for row in v)]
    if order == "second":
        parts.append(_triangle(z, mixed, bend))
    return np.concatenate(parts)


def _triangle(z: Floats, mixed: Floats, bend: Floats) -> Floats:
    """sum_j mixed_j (z_j z_j') x bend_j, one triangle of the matrix, row by row."""
    inputs, outputs = z.shape[1], bend.shape[1]
    hess = np.empty((inputs, outputs, inputs, outputs))
    for a in range(outputs):
        for b in range(outputs):
            hess[:, a, :, b] = z.T @ ((mixed * bend[:, a, b])[:, None] * z)
    size = inputs * outputs
    triangle: Floats = hess.reshape(size, size)[np.triu_indices(size)]
    return triangle


def vector_length(order: str, parameters: int, constraints: int) -> int:
    """How many numbers answer a query; `engine.base.numbers_up` says the same."""
    if order == "lagrangian":
        return 1 + constraints + parameters
    first = (1 + constraints) * (1 + parameters)
    return first + (parameters * (parameters + 1) // 2 if order == "second" else 0)
