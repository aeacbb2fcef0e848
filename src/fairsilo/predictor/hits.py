"""What a repair needs of a silo's rows: sums by group, class and predicted class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness.constraint import Dgeo
from fairsilo.predictor.base import Predictor


@dataclass(frozen=True)
class Hits:
    """Sums over rows by group (a, b), class and predicted class (0 other, 1 protected)."""

    count: Floats
    """Number of rows, (2, 2, 2)."""
    score: Floats
    """Sum of the probabilities of the protected class, (2, 2, 2)."""

    @classmethod
    def of(cls, pair: Dgeo, y: Ints, s: Ints, predicted: Ints, score: Floats) -> Hits:
        """Count the rows of the pair's two groups; rows of other groups are left out."""
        group = group_of(pair, s)
        mine = group >= 0
        cell = (group * 4 + (y == pair.c) * 2 + (predicted == pair.c))[mine]
        count = np.bincount(cell, minlength=8).astype(np.float64)
        total: Floats = np.bincount(cell, weights=score[mine], minlength=8).astype(np.float64)
        return cls(count.reshape(2, 2, 2), total.reshape(2, 2, 2))

    @property
    def complete(self) -> bool:
        """Whether both groups have rows of both classes: without them no rate is defined."""
        return bool(self.count.sum(axis=2).all())


Fit = Callable[[Predictor, Dgeo, Hits, int], Predictor]
"""From a base predictor, the pair, a silo's sums and its number to its repaired predictor."""


def group_of(pair: Dgeo, s: Ints) -> Ints:
    """0 for rows of group a, 1 for rows of group b, -1 for all others."""
    return np.where(s == pair.a, 0, np.where(s == pair.b, 1, -1)).astype(np.int64)
