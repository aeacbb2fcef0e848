"""AF in a silo (`method.agnostic_sums` in NumPy): three kinds of sums, each a flat vector.

columns  rows, and for every column that does not name the group: sum, squares, off-binary
theta    sum of losses, covariance, gradient of sum w l, gradient of the penalty
attack   kernel, loss, group and group-score kernels (R each), sum of losses, sum of scores
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.data.encoder import Encoder
from fairsilo.flower.charter import Charter
from fairsilo.flower.numbers import losses_of, probabilities_of, scores_of

KINDS = ("columns", "theta", "attack")
POINTS = 30
SIGMA = 2.0


def seen_columns(charter: Charter, encoder: Encoder) -> Ints:
    """The columns that the adversary sees: those that do not name the group."""
    group = charter.table.group
    hidden = (f"{group}=", f"{group} (")
    names = encoder.feature_names
    return np.array(
        [i for i, n in enumerate(names) if n != group and not n.startswith(hidden)], np.int64
    )


def agnostic_length(kind: str, parameters: int, columns: int) -> int:
    """How many numbers a silo answers with."""
    return {"columns": 1 + 3 * columns, "theta": 2 + 2 * parameters, "attack": 4 * POINTS + 2}[kind]


def agnostic_answer(
    charter: Charter,
    kind: str,
    x: Floats,
    y: Ints,
    s: Ints,
    columns: Ints,
    theta: Floats,
    weighting: Floats,
    points: Floats,
) -> Floats:
    """The silo's vector; `weighting`: start, alpha, sbar of w_j = start + sum_r alpha_r K_jr."""
    seen = x[:, columns]
    if kind == "columns":
        squares = seen**2
        parts = [seen.sum(0), squares.sum(0), (squares * (1 - seen) ** 2).sum(0)]
        return np.concatenate([[float(len(x))], *parts])
    pair = charter.pairs[0]
    in_a, paired = (s == pair.a) * 1.0, ((s == pair.a) | (s == pair.b)) * 1.0
    kernel = kernels_of(seen, points.reshape(POINTS, len(columns)))
    scores = scores_of(theta, x, charter.shape[1])
    losses, u = losses_of(scores, y), scores[:, 0]
    if kind == "attack":
        weights = np.stack([np.ones_like(u), losses, in_a, in_a * u])
        return np.concatenate([(weights @ kernel).ravel(), [losses.sum(), paired @ u]])
    start, alpha, sbar = weighting[0], weighting[1:-1], weighting[-1]
    w = start + kernel @ alpha
    factor = paired * (w * in_a - sbar)
    slope = probabilities_of(scores)
    if scores.shape[1] == 1:
        slope = (slope[:, 1] - (y == 1))[:, None]
    else:
        slope[np.arange(len(y)), y] -= 1.0
    z = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    grad = (z.T @ (w[:, None] * slope)).ravel()
    pull = np.zeros_like(scores)
    pull[:, 0] = 2 * factor**2 * u
    penalty = (z.T @ pull).ravel()
    return np.concatenate([[losses.sum(), factor @ u], grad, penalty])


def kernels_of(x: Floats, points: Floats) -> Floats:
    """K(x_j, z_r) = exp(-|x_j - z_r|^2 / (2 sigma^2)), (n, R)."""
    squares = (x**2).sum(1)[:, None] + (points**2).sum(1) - 2 * x @ points.T
    result: Floats = np.exp(-np.maximum(squares, 0) / (2 * SIGMA**2))
    return result
