"""Helpers of all partitions: shuffling, rounding and stratified draws."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def shuffled(rows: Indices, rng: np.random.Generator) -> Indices:
    """Return the rows in random order.

    Sorting raw 64-bit draws gives the same order with every version of NumPy: bit generators are
    guaranteed to be stable, `Generator.permutation` is not.
    """
    keys = rng.bit_generator.random_raw(len(rows))
    return rows[np.argsort(keys, kind="stable")]


def apportion(targets: NDArray[np.float64], total: int) -> Indices:
    """Round targets that sum to `total` to integers with the same sum (largest remainders)."""
    counts = np.floor(targets).astype(np.int64)
    order = np.argsort(counts - targets, kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def equal_sizes(rows: int, clients: int) -> Indices:
    """Return sizes that sum to `rows` and differ by one at most."""
    sizes = np.full(clients, rows // clients, dtype=np.int64)
    sizes[: rows % clients] += 1
    return sizes


def stratified(
    rows: Indices, y: Indices, size: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Draw `size` rows, keeping the class shares; return the drawn rows and the rest."""
    own = y[rows]
    counts = np.bincount(own)
    classes = np.flatnonzero(counts)
    counts = counts[classes]
    quotas = apportion(counts.astype(np.float64) * (size / max(len(rows), 1)), size)
    drawn = [
        shuffled(rows[own == c], rng)[:quota] for c, quota in zip(classes, quotas, strict=True)
    ]
    picked = np.concatenate([*drawn, np.empty(0, dtype=np.int64)])
    taken = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
    taken[picked] = True
    return picked, np.sort(rows[~taken[rows]])
