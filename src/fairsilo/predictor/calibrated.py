"""CEO: calibrated equalised odds (Pleiss, Raghavan, Wu, Kleinberg, Weinberger 2017).

The cost of a group is its false-negative rate 1 - E[p | y=1], p being the probability of the
protected class (y = 1). The trivial predictor of a group always answers its base rate br and
costs t = 1 - br. The cheaper group s is mixed with
its trivial predictor until both cost the same, which keeps its scores calibrated:

    mix_s = (c_other - c_s) / (t_s - c_s), clipped to [0, 1]

That random share of its rows gets the score br_s. Where the trivial predictor costs no more than
the group's own, mixing cannot help, and nothing is mixed.
"""

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.fairness.constraint import Dgeo
from fairsilo.predictor.base import Predictor
from fairsilo.predictor.hits import Hits, group_of


@dataclass(frozen=True)
class Calibrated:
    """A base predictor with a share of each group's scores replaced by the base rate."""

    base: Predictor
    pair: Dgeo
    mix: Floats
    """The share of rows that get the base rate, for groups a and b."""
    base_rate: Floats
    """The share of the protected class in the training rows, for groups a and b."""
    stream: int = 0
    """Predictors of different clients draw apart."""

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """The mean over the draw of the class probabilities, (n, 2)."""
        share, trivial = self._mixture(s)
        return (1 - share) * self.base.probabilities(x, s) + share * trivial

    def labels(self, x: Table, s: Ints, seed: int) -> Ints:
        """One seeded draw per row; the base rate's label where it hits, else the base's label."""
        share, trivial = self._mixture(s)
        draw = np.random.default_rng([seed, self.stream, 2]).random(len(s))
        hit = draw < share[:, 0]
        return np.where(hit, np.argmax(trivial, axis=1), self.base.labels(x, s, seed))

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The mean over the draw of the cross-entropy of every row."""
        share, trivial = self._mixture(s)
        flat: Floats = -np.log(np.take_along_axis(trivial, y[:, None], axis=1))
        return (1 - share[:, 0]) * self.base.losses(x, y, s) + (share * flat)[:, 0]

    def _mixture(self, s: Ints) -> tuple[Floats, Floats]:
        """For every row the share (n, 1) and the trivial predictor's probabilities (n, 2)."""
        group = group_of(self.pair, s)
        share = np.where(group >= 0, self.mix[group], 0.0)[:, None]
        rate = self.base_rate[group]
        classes = [1 - rate, rate] if self.pair.c == 1 else [rate, 1 - rate]
        return share, np.stack(classes, axis=1)


def fit_calibrated(base: Predictor, pair: Dgeo, hits: Hits, stream: int = 0) -> Calibrated:
    """Mix the cheaper group; with a class missing in a group nothing is mixed."""
    if not hits.complete:
        return Calibrated(base, pair, np.zeros(2), np.full(2, 0.5), stream)
    rows, score = hits.count.sum(axis=2), hits.score.sum(axis=2)
    rate = rows[:, 1] / rows.sum(axis=1)
    own = 1 - score[:, 1] / rows[:, 1]
    cheap = int(np.argmin(own))
    room = 1 - rate[cheap] - own[cheap]
    mix = np.zeros(2)
    if room > 0:
        mix[cheap] = min((own[1 - cheap] - own[cheap]) / room, 1.0)
    return Calibrated(base, pair, mix, rate, stream)
