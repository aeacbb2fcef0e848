"""Helpers of all partitions: shuffling, rounding and stratified draws."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def shuffled(rows: Indices, rng: np.random.Generator, count: int | None = None) -> Indices:
    """Return the rows in random order, or the first `count` of these.

    Sorting raw 64-bit draws gives the same order with every version of NumPy: bit generators are
    guaranteed to be stable, `Generator.permutation` is not.
    """
    keys = rng.bit_generator.random_raw(len(rows))
    if count is not None and 0 < count < len(rows):
        # Only the smallest keys need be sorted.
        first = np.sort(np.argpartition(keys, count - 1)[:count])
        rows, keys = rows[first], keys[first]
    return rows[np.argsort(keys, kind="stable")][:count]


def by_client(client: Indices) -> Indices:
    """The rows of clients 0 and up, client by client, each in its order; test rows are left out."""
    # NumPy sorts small integers in linear time.
    small = client.astype(np.int16) if client.max(initial=0) < 1 << 15 else client
    return np.argsort(small, kind="stable")[np.count_nonzero(client < 0) :]


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
    drawn = [shuffled(rows[own == c], rng, quota) for c, quota in zip(classes, quotas, strict=True)]
    picked = np.concatenate([*drawn, np.empty(0, dtype=np.int64)])
    taken = np.zeros(int(rows.max(initial=-1)) + 1, np.bool_)
    taken[picked] = True
    return picked, np.sort(rows[~taken[rows]])
