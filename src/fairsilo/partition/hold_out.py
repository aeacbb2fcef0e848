"""Set a share of every silo's training rows aside for choosing a setting."""

from typing import Any

import numpy as np

from fairsilo.partition.federation import Federation

VALIDATION = 0.2
"""The share of every silo's training rows that is set aside."""


def hold_out(whole: Federation, seed: int, fold: int = 0) -> tuple[Federation, Federation]:
    """The rows to train on and those set aside, both by silo.

    The folds of a seed, 0 to 4, are apart and together all rows: they are what a cross-validation
    sets aside.
    """
    rng = np.random.default_rng([seed, 1])
    client = np.repeat(np.arange(whole.clients), np.diff(whole.offsets))
    held = np.zeros(whole.rows, dtype=bool)
    for silo in whole.silos():
        size = silo.stop - silo.start
        start, stop = (round(size * VALIDATION * k) for k in (fold, fold + 1))
        held[silo.start + rng.permutation(size)[start:stop]] = True
    shape: dict[str, Any] = {"groups": whole.groups, "classes": whole.classes}
    shape["weight"] = whole.weight
    parts = (np.where(held, -1, client), np.where(held, client, -1))
    rest, aside = (Federation.of(whole.x, whole.y, whole.s, part, **shape) for part in parts)
    return rest, aside
