"""The sums of logistic regression in NumPy: the twin of `sums.rows.row_sums`.

It needs no compiler, so a silo answers its first question at once. theta is laid out as the model
lays it out: bias first, then the weights, feature by feature, so that with a column of ones before
x it is one matrix (1 + features, outputs).
"""

import numpy as np

from fairsilo.arrays import Floats, Ints

SHARPNESS = 2.0
"""As in `model.loss`: how much steeper the smooth error is than the probability."""


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


def slopes_of(p: Floats, y: Ints, outputs: int) -> Floats:
    """d loss / d score, (n, outputs)."""
    slope = p.copy()
    slope[np.arange(len(y)), y] -= 1.0
    return slope[:, -outputs:]


def linear_sums(
    order: str,
    x: Floats,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    classes: int,
    measure: str = "loss",
) -> Floats:
    """L, D, gradients and the triangle of the Hessian, as one vector (see `round.unflatten`)."""
    scores = scores_of(theta, x, classes)
    outputs, p = scores.shape[1], probabilities_of(scores)
    losses, slope = losses_of(scores, y), slopes_of(p, y, scores.shape[1])
    bend = _curvature(p, outputs)
    values, tilt, curve = losses, slope, bend
    if measure == "rate":
        values = (np.argmax(p, axis=1) != y) * 1.0
        tilt, curve = _smooth_error(scores, y)
    z = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    pushed = mu @ v

    def gradient(weights: Floats, slopes: Floats) -> Floats:
        return (z.T @ (weights[:, None] * slopes)).reshape(-1)

    parts = [np.array([w @ losses]), v @ values, gradient(w, slope)]
    if order == "lagrangian":
        parts[2] = parts[2] + gradient(pushed, tilt)
        return np.concatenate(parts)
    parts += [gradient(row, tilt) for row in v]
    if order == "second":
        both = w[:, None, None] * bend + pushed[:, None, None] * curve
        parts.append(_triangle(z, both))
    return np.concatenate(parts)


def _curvature(p: Floats, outputs: int) -> Floats:
    """d^2 loss / d score^2, (n, outputs, outputs)."""
    bend: Floats = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    return bend[:, -outputs:, -outputs:]


def _smooth_error(scores: Floats, y: Ints) -> tuple[Floats, Floats]:
    """Slope and curvature in the scores of q_j = 1 - softmax(SHARPNESS * scores_j)[y_j]."""
    outputs, p = scores.shape[1], probabilities_of(SHARPNESS * scores)
    away = np.eye(p.shape[1])[y] - p
    right = p[np.arange(len(y)), y]
    slope = -SHARPNESS * right[:, None] * away
    bend = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
    bend = SHARPNESS**2 * right[:, None, None] * (bend - away[:, :, None] * away[:, None, :])
    return slope[:, -outputs:], bend[:, -outputs:, -outputs:]


def _triangle(z: Floats, bend: Floats) -> Floats:
    """sum_j (z_j z_j') x bend_j, one triangle of the matrix, row by row."""
    inputs, outputs = z.shape[1], bend.shape[1]
    hess = np.empty((inputs, outputs, inputs, outputs))
    for a in range(outputs):
        for b in range(outputs):
            hess[:, a, :, b] = z.T @ (bend[:, a, b][:, None] * z)
    size = inputs * outputs
    return hess.reshape(size, size)[np.triu_indices(size)]
