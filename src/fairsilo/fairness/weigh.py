"""Weigh the rows of a federation: every silo weighs its own, knowing only `Totals`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness.constraint import Constraint, Estimator, Totals, count_cells, row_weights
from fairsilo.partition.federation import Federation


def totals_of(
    federation: Federation, constraints: Sequence[Constraint], min_cell: int = 0
) -> Totals:
    """The sum of the silos' summands: a set-up exchange."""
    parts = (
        Totals.of_silo(
            count_cells(
                federation.y[silo], federation.s[silo], federation.groups, federation.classes
            ),
            constraints,
            min_cell,
        )
        for silo in federation.silos()
    )
    return reduce(add, parts)


def weigh(
    federation: Federation,
    constraints: Sequence[Constraint],
    estimator: Estimator,
    totals: Totals,
    min_cell: int = 0,
) -> tuple[Floats, Floats]:
    """The objective's row weights w (n,) and the constraints' v (len(constraints), n).

    Under `local` a row weighs in the constraints of its own silo: the engine keeps the silos'
    sums apart instead of adding them.
    """
    n = federation.rows
    w = np.full(n, 1 / n)
    v = np.zeros((len(constraints), n))
    for silo in federation.silos():
        v[:, silo] = row_weights(
            constraints, estimator, federation.y[silo], federation.s[silo], totals, min_cell
        )
    return w, v


def weighted(
    federation: Federation,
    constraints: Sequence[Constraint],
    estimator: Estimator,
    min_cell: int = 0,
) -> tuple[Federation, Floats, Floats]:
    """The rows to ask, and what they weigh: `weigh`, and what claims add to it.

    A constraint with a claim needs the loss of every row under that class. So each silo asks its
    rows of other classes a second time, under the claimed one; these weigh nothing in the
    objective, and in the constraints of their claim what the row weighs.
    """
    totals = totals_of(federation, constraints, min_cell)
    w, v = weigh(federation, constraints, estimator, totals, min_cell)
    claims = [constraint.claim for constraint in constraints]
    if not any(claim is not None for claim in claims):
        return federation, w, v
    asked, source = _asked(federation, sorted({claim for claim in claims if claim is not None}))
    again = federation.y[source] != asked.y
    counts = [~again if claim is None else asked.y == claim for claim in claims]
    return asked, np.where(again, 0.0, w[source]), v[:, source] * np.stack(counts)


def _asked(federation: Federation, claims: Sequence[int]) -> tuple[Federation, Ints]:
    """Each silo's rows, then for every claim those of another class, relabelled; and which rows."""
    sources, labels, sizes = [], [], []
    for silo in federation.silos():
        rows = np.arange(silo.start, silo.stop)
        y = federation.y[silo]
        sources += [rows, *(rows[y != claim] for claim in claims)]
        labels += [y, *(np.full(int(np.sum(y != claim)), claim) for claim in claims)]
        sizes.append(sum(map(len, sources)))
    source = np.concatenate(sources)
    asked = Federation(
        federation.x[source],
        np.concatenate(labels),
        federation.s[source],
        np.array([0, *sizes], np.int64),
        federation.groups,
        federation.classes,
    )
    return asked, source
