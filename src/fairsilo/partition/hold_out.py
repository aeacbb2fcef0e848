"""Set a share of every silo's training rows aside for choosing a setting."""

from typing import Any

import numpy as np

from fairsilo.partition.federation import Federation

VALIDATION = 0.2
"""The share of every silo's training rows that is set aside."""


def hold_out(whole: Federation, seed: int) -> tuple[Federation, Federation]:
    """The rows to train on and those set aside, both by silo."""
    rng = np.random.default_rng([seed, 1])
    client = np.repeat(np.arange(whole.clients), np.diff(whole.offsets))
    held = np.zeros(whole.rows, dtype=bool)
    for silo in whole.silos():
        size = silo.stop - silo.start
        held[silo.start + rng.permutation(size)[: round(size * VALIDATION)]] = True
    shape: dict[str, Any] = {"groups": whole.groups, "classes": whole.classes}
    shape["weight"] = whole.weight
    parts = (np.where(held, -1, client), np.where(held, client, -1))
    rest, aside = (Federation.of(whole.x, whole.y, whole.s, part, **shape) for part in parts)
    return rest, aside
