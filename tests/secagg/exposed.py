"""Which silos' shares follow from sums: the slow, obvious computation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def exposed(sets: Sequence[frozenset[str]]) -> set[str]:
    """The silos whose unit vector lies in the span of the sets' indicator vectors."""
    if not sets:
        return set()
    names = sorted(frozenset().union(*sets))
    rows = np.array([[name in past for name in names] for past in sets], dtype=np.float64)
    rank = np.linalg.matrix_rank(rows)
    units = np.eye(len(names))
    return {
        name
        for name, unit in zip(names, units, strict=True)
        if np.linalg.matrix_rank(np.vstack([rows, unit])) == rank
    }
