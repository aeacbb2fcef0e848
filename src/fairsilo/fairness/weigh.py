"""Weigh the rows of a federation: every silo weighs its own, knowing only `Totals`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from fairsilo.fairness.constraint import Dgeo, Estimator, Floats, Totals, count_cells, row_weights
from fairsilo.partition.federation import Federation


def totals_of(federation: Federation, constraints: Sequence[Dgeo], min_cell: int = 0) -> Totals:
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
    constraints: Sequence[Dgeo],
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
