"""What predictors answer: many for the same rows, or each for the rows of its own client.

Models of one kind answer in one program, and a model that many clients repaired answers once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import (
    Plain,
    Predictor,
    filled,
    filled_size,
    labels_and_losses,
    own_outputs,
)
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds

Answer = tuple[Ints, Floats]
"""Labels and losses."""


@dataclass(frozen=True)
class Answered:
    """A predictor that was asked before, and repeats what it said of these rows."""

    chances: Floats
    lost: Floats

    @classmethod
    def of(cls, one: Predictor, x: Floats, y: Ints, s: Ints) -> Answered:
        """Ask a predictor once and keep its answers."""
        return cls(one.probabilities(x, s), one.losses(x, y, s))

    def part(self, rows: slice) -> Answered:
        """What was said of some of the rows."""
        return Answered(self.chances[rows], self.lost[rows])

    def probabilities(self, x: Floats, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""
        return self.chances

    def labels(self, x: Floats, s: Ints, seed: int) -> Ints:
        """The most probable class."""
        best: Ints = np.argmax(self.chances, axis=1).astype(np.int64)
        return best

    def losses(self, x: Floats, y: Ints, s: Ints) -> Floats:
        """The loss of every row."""
        return self.lost


def on_rows(
    predictors: Sequence[Predictor], x: Floats, y: Ints, s: Ints, seed: int
) -> list[Answer]:
    """What each says of the same rows."""
    plain = [one for one in predictors if isinstance(one, Plain)]
    if len(plain) == len(predictors):
        return labels_and_losses(plain, x, y)
    asked, base = predictors, _common_base(predictors)
    if base is not None:
        said = Answered.of(base, x, y, s)
        asked = [_with_base(one, said) for one in predictors]
    return [(one.labels(x, s, seed), one.losses(x, y, s)) for one in asked]


def on_own_rows(
    models: Sequence[Sequence[Predictor]], federation: Federation, seed: int
) -> list[Answer]:
    """For each training, what the common model, or each client's own, says of the clients' rows."""
    plain = [[one for one in own if isinstance(one, Plain)] for own in models]
    if list(map(len, plain)) != list(map(len, models)):
        return [_one_by_one(own, federation, seed) for own in models]
    if len(plain[0]) == 1:
        return labels_and_losses([one for (one,) in plain], federation.x, federation.y)
    return _side_by_side(plain, federation)


def _side_by_side(models: Sequence[Sequence[Plain]], federation: Federation) -> list[Answer]:
    """One model for each training and client; clients of like size share a program."""
    silos = list(federation.silos())
    labels = np.empty((len(models), federation.rows), np.int64)
    losses = np.empty((len(models), federation.rows))
    sizes = [filled_size(own.stop - own.start) for own in silos]
    for size in sorted(set(sizes)):
        clients = [i for i, own in enumerate(sizes) if own == size]
        x, y = (
            np.stack([filled(table[silos[i]]) for i in clients])
            for table in (federation.x, federation.y)
        )
        thetas = np.stack([[one[i].theta for one in models] for i in clients])
        for i, *said in zip(clients, *own_outputs(models[0][0].model, thetas, x, y), strict=True):
            count = silos[i].stop - silos[i].start
            labels[:, silos[i]], losses[:, silos[i]] = (part[:, :count] for part in said)
    return list(zip(labels, losses, strict=True))


def _one_by_one(predictors: Sequence[Predictor], federation: Federation, seed: int) -> Answer:
    x, y, s = federation.x, federation.y, federation.s
    base = _common_base(predictors)
    said = None if base is None else Answered.of(base, x, y, s)
    labels, losses = np.empty(len(y), np.int64), np.empty(len(y))
    for one, own in zip(cycle(predictors), federation.silos(), strict=False):
        asked = one if said is None else _with_base(one, said.part(own))
        labels[own] = asked.labels(x[own], s[own], seed)
        losses[own] = asked.losses(x[own], y[own], s[own])
    return labels, losses


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
