"""What predictors answer: many for the same rows, or each for the rows of its own client.

A model that many clients repaired answers once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.model.scores import losses_of, probabilities_of
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import HALF, Plain, Predictor, labels_of, scores_of
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds

Answer = tuple[Ints, Floats]
"""Labels and losses."""


@dataclass(frozen=True)
class Answered:
    """A predictor that was asked before, and repeats what it said of these rows."""

    chances: Floats
    lost: Floats
    cut: float = HALF

    @classmethod
    def of(cls, one: Predictor, x: Table, y: Ints, s: Ints) -> Answered:
        """Ask a predictor once and keep its answers."""
        if isinstance(one, Plain):
            scores = scores_of(one.model, one.theta, x)
            return cls(probabilities_of(scores), losses_of(scores, y), one.cut)
        return cls(one.probabilities(x, s), one.losses(x, y, s))

    def part(self, rows: slice) -> Answered:
        """What was said of some of the rows."""
        return Answered(self.chances[rows], self.lost[rows], self.cut)

    def probabilities(self, x: Table, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""
        return self.chances

    def labels(self, x: Table, s: Ints, seed: int) -> Ints:
        """The most probable class."""
        return labels_of(self.chances, self.cut)

    def losses(self, x: Table, y: Ints, s: Ints) -> Floats:
        """The loss of every row."""
        return self.lost


def on_rows(predictors: Sequence[Predictor], x: Table, y: Ints, s: Ints, seed: int) -> list[Answer]:
    """What each says of the same rows."""
    base = _common_base(predictors)
    said = None if base is None else Answered.of(base, x, y, s)
    return [_answer(one, said, x, y, s, seed) for one in predictors]


def on_own_rows(
    models: Sequence[Sequence[Predictor]], federation: Federation, seed: int
) -> list[Answer]:
    """For each training, what the common model, or each client's own, says of the clients' rows."""
    return [_each_its_own(own, federation, seed) for own in models]


def _each_its_own(predictors: Sequence[Predictor], federation: Federation, seed: int) -> Answer:
    x, y, s = federation.x, federation.y, federation.s
    if len(predictors) == 1 and isinstance(predictors[0], Plain):
        return _answer(predictors[0], None, x, y, s, seed)
    base = _common_base(predictors)
    said = None if base is None else Answered.of(base, x, y, s)
    labels, losses = np.empty(len(y), np.int64), np.empty(len(y))
    for one, own in zip(cycle(predictors), federation.silos(), strict=False):
        mine = None if said is None else said.part(own)
        labels[own], losses[own] = _answer(one, mine, x[own], y[own], s[own], seed)
    return labels, losses


def _answer(one: Predictor, said: Answered | None, x: Table, y: Ints, s: Ints, seed: int) -> Answer:
    """Labels and losses of one; `said` is what its base said of these rows."""
    if said is None and isinstance(one, Plain):
        said = Answered.of(one, x, y, s)
        return said.labels(x, s, seed), said.lost
    asked = one if said is None else _with_base(one, said)
    return asked.labels(x, s, seed), asked.losses(x, y, s)


def _common_base(predictors: Sequence[Predictor]) -> Predictor | None:
    """The one model that all of them repair, unless its answers are drawn, too."""
    bases = [
        one.base if isinstance(one, EqualizedOdds | Calibrated) else None for one in predictors
    ]
    first = bases[0]
    if not isinstance(first, Plain):
        return None
    same = all(isinstance(base, Plain) and base.theta is first.theta for base in bases)
    return first if same else None


def _with_base(one: Predictor, base: Predictor) -> Predictor:
    assert isinstance(one, EqualizedOdds | Calibrated)
    return replace(one, base=base)
