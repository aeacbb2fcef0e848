"""Post-processing: train without a constraint, then let every client repair the labels.

What a client's repair needs of its rows are sums again: how many rows of each group and class
were predicted what, and how high the protected class scored there. EO and CEO differ in what
they make of these sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.engine import Watch
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo
from fairsilo.method.base import Method, Predictor, Task, Trained
from fairsilo.method.constrained import fedavg

BASES = {"fedavg": "FedAvg", "fedfair": "FedFair", "lco": "LCO", "st": "ST", "af": "AF"}
"""What a repair can follow."""


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
"""From a base predictor, the pair, a client's sums and its number to its repaired predictor."""


def group_of(pair: Dgeo, s: Ints) -> Ints:
    """0 for rows of group a, 1 for rows of group b, -1 for all others."""
    return np.where(s == pair.a, 0, np.where(s == pair.b, 1, -1)).astype(np.int64)


def hits_of(base: Predictor, pair: Dgeo, x: Floats, y: Ints, s: Ints) -> Hits:
    """The sums of a base predictor on some rows, enough to fit EO or CEO to it."""
    return Hits.of(pair, y, s, base.labels(x, s, 0), base.probabilities(x, s)[:, pair.c])


def only_pair(task: Task, method: str) -> Dgeo:
    """The one pair of groups of a task with two classes, or an error in one sentence."""
    if task.federation.classes != 2:
        raise FairSiloError(
            f"method {method} needs two classes and the label has {task.federation.classes}: "
            "use --method fedfair"
        )
    if len(task.constraints) != 1:
        raise FairSiloError(
            f"method {method} compares two groups and there are {len(task.constraints)} pairs: "
            "name two with --groups, or use --method fedfair"
        )
    (pair,) = task.constraints
    if not isinstance(pair, Dgeo):
        raise FairSiloError(
            f"method {method} has a notion of fairness of its own: leave out --notion, or use "
            "--method fedfair"
        )
    return pair


def repair(
    task: Task,
    watch: Watch | None,
    method: str,
    fit: Fit,
    train: Method = fedavg,
    after: str = "fedavg",
) -> Trained:
    """Any training, FedAvg unless told otherwise, then `repair_trained`."""
    only_pair(task, method)
    return repair_trained(task, train(task, watch), method, fit, after)


def repair_trained(
    task: Task, trained: Trained, method: str, fit: Fit, after: str = "fedavg"
) -> Trained:
    """A fit at every client on its own training rows, after any training; it sends nothing.

    Every client repairs the common model, or its own where each has one (`after` ST).
    """
    pair, federation = only_pair(task, method), task.federation
    silos = list(federation.silos())
    one = len(trained.predictors) == 1
    bases = trained.predictors * len(silos) if one else trained.predictors
    predicted = np.empty(len(federation.y), np.int64)
    score = np.empty(len(federation.y))
    # A common model predicts all rows at once.
    for base, own in [(bases[0], slice(None))] if one else zip(bases, silos, strict=True):
        x, s = federation.x[own], federation.s[own]
        predicted[own] = base.labels(x, s, task.seed)
        score[own] = base.probabilities(x, s)[:, pair.c]
    hits = [
        Hits.of(pair, federation.y[own], federation.s[own], predicted[own], score[own])
        for own in silos
    ]
    skipped = sum(not own.complete for own in hits)
    note = (
        f"{skipped} of {len(hits)} clients lack a class in one of the two groups, so that there is "
        f"nothing to fit: they keep the labels of {BASES[after]}",
    )
    return Trained(
        tuple(
            fit(base, pair, own, client)
            for client, (base, own) in enumerate(zip(bases, hits, strict=True))
        ),
        trained.outcome,
        trained.numbers_up,
        trained.numbers_down,
        (*trained.notes, *(note if skipped else ())),
    )
