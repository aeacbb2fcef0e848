"""IID: every client holds a random sample of the rows."""

import numpy as np

from fairsilo.partition.rows import Indices, equal_sizes, shuffled


def iid(rows: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
    """Divide the rows at random; sizes differ by one at most."""
    cuts = np.cumsum(equal_sizes(len(rows), clients))[:-1]
    return np.split(shuffled(rows, rng), cuts)
