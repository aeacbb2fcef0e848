"""Dirichlet: each class is shared out among the clients in proportions drawn from Dir(alpha)."""

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.partition.rows import Indices, apportion, shuffled


def dirichlet(
    rows: Indices, y: Indices, clients: int, alpha: float, rng: np.random.Generator
) -> list[Indices]:
    """Divide every class; a small alpha gives few clients most of a class.

    A client that is left without a row gets one from the largest client.
    """
    if not (np.isfinite(alpha) and alpha > 0):
        raise FairSiloError(f"alpha is {alpha}; the Dirichlet partition needs a number above 0")
    held: list[list[Indices]] = [[] for _ in range(clients)]
    for c in np.unique(y[rows]):
        members = shuffled(rows[y[rows] == c], rng)
        counts = apportion(rng.dirichlet(np.full(clients, alpha)) * len(members), len(members))
        for client, part in enumerate(np.split(members, np.cumsum(counts)[:-1])):
            held[client].append(part)
    parts = [np.concatenate(p) for p in held]
    for client, part in enumerate(parts):
        if not len(part):
            largest = max(range(clients), key=lambda k: len(parts[k]))
            parts[client], parts[largest] = parts[largest][-1:], parts[largest][:-1]
    return parts
