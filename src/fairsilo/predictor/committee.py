"""Several predictors as one: ST, EO and CEO leave one per client.

For whoever asks them all (`fairsilo predict`, the estimator) the class is the members' vote (the
lower one on a tie) and the probability their mean. A committee of one is its member.
"""

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.predictor.base import Predictor


@dataclass(frozen=True)
class Committee:
    """A predictor made of predictors."""

    members: tuple[Predictor, ...]
    classes: int

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """The mean of the members' class probabilities, (n, classes)."""
        mean: Floats = np.mean([one.probabilities(x, s) for one in self.members], axis=0)
        return mean

    def labels(self, x: Table, s: Ints, seed: int) -> Ints:
        """The class that most members predict."""
        votes = np.stack([one.labels(x, s, seed) for one in self.members])
        counts = np.stack([(votes == c).sum(axis=0) for c in range(self.classes)])
        most: Ints = np.argmax(counts, axis=0).astype(np.int64)
        return most

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The mean of the members' losses."""
        mean: Floats = np.mean([one.losses(x, y, s) for one in self.members], axis=0)
        return mean
