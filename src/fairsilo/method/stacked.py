"""Clients side by side: rows with a leading axis of clients, filled up with rows of weight zero.

What every client does alone (separate training, local steps) is then one batched program
instead of a loop over clients. Where sizes are so uneven that most of the array would be
filling, clients of like size share an array, and there are a few programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.weigh import weighted
from fairsilo.partition.federation import Federation
from fairsilo.sums import Rows

WASTE = 4
"""How many times the rows one array for all clients may have before it is split by size."""


def batches(federation: Federation) -> list[list[int]]:
    """Which clients share an array: all of them, or those within a factor of two in size."""
    sizes = np.diff(federation.offsets)
    if sizes.max() * len(sizes) <= WASTE * federation.rows:
        return [list(range(len(sizes)))]
    magnitude = [int(size).bit_length() for size in sizes]
    return [
        [i for i, bits in enumerate(magnitude) if bits == wanted]
        for wanted in sorted(set(magnitude))
    ]


def stack(
    federation: Federation, clients: Sequence[int], constraints: Sequence[Constraint]
) -> Rows:
    """x (R, n, d), y (R, n), w (R, n), v (R, K, n): each client weighed as if it were alone.

    Its rows weigh w_j = 1/m_i and v_j = +-1/m_i^{s,c}; with an empty cell v is zero, so that
    the client has no such constraint.
    """
    parts = [weighted(federation.only(client), constraints, "local") for client in clients]
    shape = (len(parts), max(part.rows for part, _, _ in parts))
    x = np.zeros((*shape, federation.x.shape[1]))
    y = np.zeros(shape, np.int64)
    w = np.zeros(shape)
    v = np.zeros((shape[0], len(constraints), shape[1]))
    for r, (part, *weights) in enumerate(parts):
        own = slice(part.rows)
        x[r, own], y[r, own] = part.x, part.y
        w[r, own], v[r, :, own] = weights
    return Rows(x, y, w, v)  # type: ignore[arg-type]
