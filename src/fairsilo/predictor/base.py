"""A trained model as its user sees it: rows in, probabilities, classes and losses out."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Coded, Table
from fairsilo.model.base import Model
from fairsilo.model.scores import linear_scores, losses_of, probabilities_of

HALF = 0.5
"""Where a model of two classes decides unless told otherwise."""
BLOCK = 1 << 15
"""Rows that a network scores at a time."""


class Predictor(Protocol):
    """A trained model as its user sees it: rows in, probabilities and classes out."""

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""

    def labels(self, x: Table, s: Ints, seed: int) -> Ints:
        """Predicted classes; the seed matters only to predictors that draw."""

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The loss of every row."""


def scores_of(model: Model, theta: Floats, x: Table) -> Floats:
    """Scores (n, outputs): of logistic regression by NumPy, of others compiled, block by block."""
    if model.linear:
        return linear_scores(theta, x, model.classes)
    from fairsilo.sums.coded import placed
    from fairsilo.sums.rows import compiled_scores

    parts = [x[start : start + BLOCK] for start in range(0, max(len(x), 1), BLOCK)]
    each = [compiled_scores(model, theta, placed(filled(part)))[: len(part)] for part in parts]
    return np.concatenate(each)


def filled(rows: Any) -> Any:
    """The rows, and rows of zeros after them, so that a program serves tables of many sizes.

    At most an eighth more rows.
    """
    step = 1 << max(len(rows).bit_length() - 4, 0)
    more = -len(rows) % step

    def fill(leaf: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.pad(leaf, [(0, more)] + [(0, 0)] * (leaf.ndim - 1))

    if isinstance(rows, Coded):
        return Coded(fill(rows.numbers), fill(rows.codes), rows.layout)
    return fill(rows)


def labels_of(probabilities: Floats, cut: float = HALF) -> Ints:
    """The most probable class, or of two the second from a probability on."""
    if cut != HALF:
        return (probabilities[:, 1] >= cut).astype(np.int64)
    best: Ints = np.argmax(probabilities, axis=1).astype(np.int64)
    return best


@dataclass(frozen=True)
class Plain:
    """The model itself: the most probable class, the lower one on a tie."""

    model: Model
    theta: Floats
    cut: float = HALF
    """Of two classes, from which probability on the second is predicted."""

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""
        return probabilities_of(scores_of(self.model, self.theta, x))

    def labels(self, x: Table, s: Ints, seed: int = 0) -> Ints:
        """The most probable class."""
        return labels_of(self.probabilities(x, s), self.cut)

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """Cross-entropy of every row."""
        return losses_of(scores_of(self.model, self.theta, x), y)
