"""A model's results by group and class, and by client, for the report."""

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fairsilo.evaluate.intervals import Moments
from fairsilo.evaluate.metrics import accuracy, dgeo_pooled, finite
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint


def cells_of(
    tallies: Sequence[Tally], groups: Sequence[str], classes: Sequence[str]
) -> list[dict[str, Any]]:
    """For every group and class: rows, counts of predictions, mean and deviation of the loss.

    Given the tallies of several models on the same rows, the average over the models.
    """
    total = reduce(add, tallies)
    cells = []
    for g, group in enumerate(groups):
        for c, name in enumerate(classes):
            rows = int(tallies[0].cells[g, c])
            draws = rows * len(tallies)
            mean = finite(total.losses[g, c] / draws) if rows else None
            spread = finite(total.squares[g, c] / draws - mean**2) if mean is not None else None
            counts = np.rint(total.counts[g, c] / len(tallies)).astype(int)
            cells.append(
                {
                    "group": group,
                    "class": name,
                    "rows": rows,
                    "predicted": dict(zip(classes, map(int, counts), strict=True)),
                    "loss": mean,
                    "loss_std": None if spread is None else float(np.sqrt(max(spread, 0.0))),
                }
            )
    return cells


def claims_of(
    tally: Tally, groups: Sequence[str], classes: Sequence[str], claims: Sequence[int]
) -> list[dict[str, Any]]:
    """For every group and claimed class: mean and deviation of the loss if all rows had it."""
    if tally.claimed is None:
        return []
    rows = tally.cells.sum(axis=1)
    found = []
    for g, c in itertools.product(range(len(groups)), claims):
        total, squares = tally.claimed[:, g, c]
        if rows[g] and np.isfinite([total, squares]).all():
            moments = Moments.of_sums(int(rows[g]), total, squares)
            spread = {"loss": moments.mean, "loss_std": moments.std}
            found.append({"group": groups[g], "claim": classes[c], "rows": moments.rows, **spread})
    return found


def clients_of(tallies: Mapping[str, Tally], pairs: Sequence[Constraint]) -> list[dict[str, Any]]:
    """For every client, by name: rows, accuracy, gap."""
    return [
        {
            "client": name,
            "rows": int(tally.counts.sum()),
            "accuracy": accuracy(tally),
            "dgeo": dgeo_pooled(tally, pairs),
        }
        for name, tally in tallies.items()
    ]
