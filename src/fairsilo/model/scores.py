"""Scores in NumPy, where nothing need be compiled: losses, probabilities, slopes."""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table


def linear_scores(theta: Floats, x: Table, classes: int) -> Floats:
    """Scores (n, outputs) of logistic regression: one for two classes, else one per class.

    theta is laid out as the model lays it out: bias first, then the weights, feature by feature,
    so that with a column of ones before x it is one matrix (1 + features, outputs).
    """
    outputs = 1 if classes == 2 else classes
    matrix = theta.reshape(-1, outputs)
    # A training that diverged leaves a model without finite scores, and says so by itself.
    with np.errstate(invalid="ignore", over="ignore"):
        scores: Floats = x @ matrix[1:] + matrix[0]
    return scores


def losses_of(scores: Floats, y: Ints) -> Floats:
    """Cross-entropy of every row."""
    if scores.shape[1] == 1:
        against = np.where(y == 1, -scores[:, 0], scores[:, 0])
        return np.maximum(against, 0.0) + np.log1p(np.exp(-np.abs(against)))
    top = scores.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
    losses: Floats = log_sum - scores[np.arange(len(y)), y]
    return losses


def probabilities_of(scores: Floats) -> Floats:
    """Class probabilities (n, classes)."""
    if scores.shape[1] == 1:
        e = np.exp(-np.abs(scores))
        share = 1 / (1 + e)
        below = scores < 0
        return np.hstack([np.where(below, share, e * share), np.where(below, e * share, share)])
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = e / e.sum(axis=1, keepdims=True)
    return shares


def slopes_of(p: Floats, y: Ints, outputs: int) -> Floats:
    """d loss / d score, (n, outputs)."""
    if outputs == 1:
        return p[:, 1:] - y[:, None]
    slope = p.copy()
    slope[np.arange(len(y)), y] -= 1.0
    return slope[:, -outputs:]
