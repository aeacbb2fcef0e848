"""Label skew (Huang et al.): every client has a class that makes 80 % of its rows.

A share p of the clients is dominated by the protected class c, the others by the rest of the
classes. No row is used twice, so p follows from 0.2 + 0.6 p = P(y = c).
"""

import numpy as np
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError
from fairsilo.partition.rows import Indices, apportion, equal_sizes, shuffled

MAJOR, MINOR = 0.8, 0.2
POINT = 0.01
"""How far a client may be from 80 %, since clients are whole and all rows are used."""


def skewed(
    rows: Indices, y: Indices, clients: int, protected: int, rng: np.random.Generator
) -> list[Indices]:
    """Divide the rows so that only the first clients are dominated by `protected`.

    With more than two classes the others count as one and are mixed at random.
    """
    inside = shuffled(rows[y[rows] == protected], rng)
    outside = shuffled(rows[y[rows] != protected], rng)
    sizes = equal_sizes(len(rows), clients)
    counts = apportion(_targets(sizes, len(inside)), len(inside))
    ins = np.split(inside, np.cumsum(counts)[:-1])
    outs = np.split(outside, np.cumsum(sizes - counts)[:-1])
    return [np.concatenate(pair) for pair in zip(ins, outs, strict=True)]


def _targets(sizes: Indices, protected_rows: int) -> NDArray[np.float64]:
    """Return how many rows of the protected class each client should have, before rounding."""
    total = int(sizes.sum())
    share = protected_rows / total
    if not MINOR - POINT <= share <= MAJOR + POINT:
        raise FairSiloError(
            f"a skewed partition needs a protected class with 20 % to 80 % of the training rows, "
            f"and it has {share:.1%}; choose another partition or protected class"
        )
    # The dominated clients come first and together should hold this many rows.
    wanted = total * min(max((share - MINOR) / (MAJOR - MINOR), 0.0), 1.0)
    held = np.concatenate([[0], np.cumsum(sizes)])
    targets = _pattern(sizes, int(np.argmin(np.abs(held - wanted))))
    surplus = protected_rows - float(targets.sum())
    if abs(surplus) <= POINT * total + 1e-6:
        return targets + surplus * sizes / total
    # Too large to spread over all clients: the next client takes the whole surplus instead.
    k = int(np.searchsorted(held, wanted, side="right")) - 1
    targets = _pattern(sizes, k)
    targets[k] += protected_rows - targets.sum()
    return targets


def _pattern(sizes: Indices, dominated: int) -> NDArray[np.float64]:
    shares = np.where(np.arange(len(sizes)) < dominated, MAJOR, MINOR)
    return shares.astype(np.float64) * sizes
