"""Random federations for property tests: uneven clients, empty cells, one row in a cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from fairsilo.arrays import Floats
from fairsilo.partition.federation import Federation
from tests.oracle import Client


@dataclass
class RandomTable:
    """A federation and the same rows in the oracle's form."""

    federation: Federation
    clients: list[Client]
    theta: Floats
    """In the oracle's order: weight, bias."""

    @property
    def package_theta(self) -> Floats:
        """In the package's flat order: bias first (keys of the layer are sorted)."""
        return np.concatenate([self.theta[-1:], self.theta[:-1]])


def make(seed: int, sizes: list[int], features: int, rare: bool = False) -> RandomTable:
    """A table with the given client sizes; `rare` leaves one row of (0, 1) in each client."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    x = rng.normal(size=(n, features))
    s = rng.integers(0, 2, n)
    y = rng.integers(0, 2, n)
    client = np.repeat(np.arange(len(sizes)), sizes)
    if rare:
        s[(y == 1) & (s == 0)] = 1
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        s[starts], y[starts] = 0, 1
    # For every draw the union has both cells: two rows of the first client.
    s[0], y[0] = 0, 1
    s[1], y[1] = 1, 1
    order = np.argsort(client, kind="stable")
    federation = Federation.of(x, y, s, client, groups=2, classes=2)
    ones = np.hstack([x, np.ones((n, 1))])
    clients = [
        Client(ones[order][part], y[order][part], s[order][part]) for part in federation.silos()
    ]
    return RandomTable(federation, clients, rng.normal(size=features + 1))


ROWS, FEATURES = 24, 3
"""Fixed, so that all examples share their compiled programs; the cuts between clients vary."""


@st.composite
def random_tables(draw: st.DrawFn) -> RandomTable:
    """One to six clients of uneven sizes, with at least two rows each."""
    cuts = draw(st.lists(st.integers(1, ROWS // 2 - 1), max_size=5, unique=True))
    edges = [0, *sorted(2 * cut for cut in cuts), ROWS]
    sizes = [stop - start for start, stop in pairwise(edges)]
    return make(draw(st.integers(0, 2**31)), sizes, FEATURES, draw(st.booleans()))
