"""Weigh the rows of a federation: every silo weighs its own, knowing only `Totals`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from fairsilo.fairness.constraint import Dgeo, Estimator, Floats, Totals, count_cells, row_weights
from fairsilo.partition.federation import Federation


def totals_of(federation: Federation, constraints: Sequence[Dgeo]) -> Totals:
    """The sum of the silos' summands: a set-up exchange."""
    parts = (
        Totals.of_silo(
            count_cells(
                federation.y[silo], federation.s[silo], federation.groups, federation.classes
            ),
            constraints,
        )
        for silo in federation.silos()
    )
    return reduce(add, parts)


def weigh(
    federation: Federation, constraints: Sequence[Dgeo], estimator: Estimator, totals: Totals
) -> tuple[Floats, Floats]:
    """The objective's row weights w (n,) and the constraints' v (K, n).

    `local` gives one constraint per silo and pair: K = silos * pairs, silo by silo.
    """
    n, pairs = federation.rows, len(constraints)
    w = np.full(n, 1 / n)
    local = estimator == "local"
    v = np.zeros((pairs * federation.clients if local else pairs, n))
    for i, silo in enumerate(federation.silos()):
        lines = slice(i * pairs, (i + 1) * pairs) if local else slice(None)
        v[lines, silo] = row_weights(
            constraints, estimator, federation.y[silo], federation.s[silo], totals
        )
    return w, v
