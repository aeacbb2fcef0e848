"""EO: equalised odds by post-processing (Hardt, Price, Srebro 2016), after any predictor.

Per group g with joint rates TP, FP, TN, FN (fractions of the group) of the labels h, find the
chance p2p_g to keep a predicted positive and n2p_g to turn a predicted negative positive:

    min   sum_g P(g) [ FP_g p2p_g + TN_g n2p_g + FN_g (1 - n2p_g) + TP_g (1 - p2p_g) ]
    s.t.  (TP_g p2p_g + FN_g n2p_g) / br_g        equal for both groups  (true-positive rate)
          (FP_g p2p_g + TN_g n2p_g) / (1 - br_g)  equal for both groups  (false-positive rate)

Positive means the protected class. The variant `conditional`, known from public code (AIF360), sums
the groups' false-positive and false-negative rates instead of their errors.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.fairness.constraint import Dgeo
from fairsilo.predictor.base import Predictor
from fairsilo.predictor.hits import Hits, group_of

Variant = Literal["joint", "conditional"]


@dataclass(frozen=True)
class EqualizedOdds:
    """A base predictor whose labels are kept or turned by chance, group by group."""

    base: Predictor
    pair: Dgeo
    p2p: Floats
    """Chance to keep a predicted positive, for groups a and b."""
    n2p: Floats
    """Chance to turn a predicted negative positive, for groups a and b."""
    stream: int = 0
    """Predictors of different clients draw apart."""

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """How likely each label is, given the base's most likely labels; (n, 2)."""
        chance = self._chance(self.base.labels(x, s, 0), s)
        return np.stack([1 - chance, chance][:: 1 if self.pair.c == 1 else -1], axis=1)

    def labels(self, x: Table, s: Ints, seed: int) -> Ints:
        """One seeded draw per row; rows of other groups keep the base's label."""
        before = self.base.labels(x, s, seed)
        draw = np.random.default_rng([seed, self.stream, 1]).random(len(s))
        return np.where(draw < self._chance(before, s), self.pair.c, 1 - self.pair.c)

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The base's: only labels are post-processed, and a sure wrong label costs infinity."""
        return self.base.losses(x, y, s)

    def _chance(self, before: Ints, s: Ints) -> Floats:
        """The chance of the protected class, for every row."""
        group, positive = group_of(self.pair, s), before == self.pair.c
        mixed = np.where(positive, self.p2p[group], self.n2p[group])
        return np.where(group >= 0, mixed, positive)


def fit_equalized_odds(
    base: Predictor, pair: Dgeo, hits: Hits, stream: int = 0, *, variant: Variant = "joint"
) -> EqualizedOdds:
    """Solve the program for one client's sums; without a program the labels stay as they are."""
    from scipy.optimize import linprog

    if not hits.complete:
        return EqualizedOdds(base, pair, np.ones(2), np.zeros(2), stream)
    rates = hits.count / hits.count.sum(axis=2, keepdims=True)
    # One line per class, false and true positives; predicted positive first, as in `errors`.
    slopes = np.concatenate([rates[0, :, ::-1], -rates[1, :, ::-1]], axis=1)
    solution = linprog(
        errors(hits, variant), A_eq=slopes, b_eq=np.zeros(2), bounds=(0, 1), method="highs"
    )
    assert solution.x is not None, solution.message  # equal chances for all are feasible
    a, b = np.clip(solution.x, 0, 1).reshape(2, 2)
    return EqualizedOdds(base, pair, np.array([a[0], b[0]]), np.array([a[1], b[1]]), stream)


def errors(hits: Hits, variant: Variant = "joint") -> Floats:
    """The objective's coefficients of (p2p_a, n2p_a, p2p_b, n2p_b), constants left out."""
    n = hits.count
    rate = n / (n.sum() if variant == "joint" else n.sum(axis=2, keepdims=True))
    # Predicted positive first: a kept one errs where the class is negative.
    cost: Floats = (rate[:, 0] - rate[:, 1])[:, ::-1].ravel()
    return cost
