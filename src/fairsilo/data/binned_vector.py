"""`Binned` as one vector of numbers, as it travels to silos: lists, each after its length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data.binned import Binned
from fairsilo.data.steps import Pair, Steps


def to_vector(binned: Binned) -> Floats:
    """All numbers of an encoder with steps; pairs come last."""
    found: list[float] = []

    def add(values: Sequence[float]) -> None:
        found.extend((len(values), *values))

    for one in binned.steps:
        add(one.edges)
        add(one.spikes)
        found.append(float(one.missing))
    for rare in binned.rare:
        add(rare)
    for pair in binned.pairs:
        found.extend((pair.first, pair.second))
        add(pair.rows)
        add(pair.columns)
    return np.array([len(binned.steps), len(binned.rare), *found], np.float64)


def from_vector(vector: Floats) -> Binned:
    """What `to_vector` wrote; anything else is a `ValueError`."""
    if not np.isfinite(vector).all() or len(vector) < 2:
        raise ValueError("numbers that are not finite, or none")
    reader = _Reader(vector)
    steps, rare = reader.whole(), reader.whole()
    return Binned(
        tuple(
            Steps(tuple(reader.several()), reader.indices(), bool(reader.whole()))
            for _ in range(steps)
        ),
        tuple(reader.indices() for _ in range(rare)),
        tuple(reader.pairs()),
    )


class _Reader:
    """Takes numbers from the front of a vector."""

    def __init__(self, vector: Floats) -> None:
        self.left = vector.tolist()[::-1]

    def whole(self) -> int:
        if not self.left or self.left[-1] != int(self.left[-1]) or self.left[-1] < 0:
            raise ValueError("an index or a length is missing")
        return int(self.left.pop())

    def several(self) -> list[float]:
        count = self.whole()
        if count > len(self.left):
            raise ValueError("a list is shorter than it says")
        return [self.left.pop() for _ in range(count)]

    def indices(self) -> tuple[int, ...]:
        values = self.several()
        if any(one != int(one) for one in values):
            raise ValueError("an index is no whole number")
        return tuple(map(int, values))

    def pairs(self) -> list[Pair]:
        found = []
        while self.left:
            found.append(Pair(self.whole(), self.whole(), self.indices(), self.indices()))
            if not found[-1].rows or not found[-1].columns:
                raise ValueError("a pair without cells")
        return found
