"""Who pays for a model, and what training it sent: what the pages of compare and sweep show."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from fairsilo.evaluate import Tally, clients_of
from fairsilo.method import Trained
from fairsilo.run.prepare import Prepared
from fairsilo.run.train import tally_of
from fairsilo.solver import Agp, Solver

RATE = "rate: "
"""Columns that begin so are true-positive rates, one for each group."""


def group_rates(prepared: Prepared, tally: Tally) -> dict[str, float]:
    """For each compared group, the share of its protected-class rows that is recognised."""
    schema = prepared.schema
    protected = schema.classes.index(prepared.protected_class)
    rows = [schema.groups.index(name) for name in prepared.groups]
    return {
        f"{RATE}{schema.groups[row]}": float(
            tally.right[row, protected] / tally.cells[row, protected]
        )
        for row in rows
    }


def by_client(prepared: Prepared, trained: Trained, seed: int) -> dict[str, float]:
    """The least and the most accurate client and the largest gap, on the clients' training rows."""
    own = itertools.cycle(trained.predictors)
    parts = zip(prepared.client_names, own, prepared.federation.parts(), strict=False)
    tallies = {
        name: tally_of(one, part.x, part.y, part.s, prepared, seed) for name, one, part in parts
    }
    found = clients_of(tallies, prepared.constraints)
    accuracies = [one["accuracy"] for one in found if one["accuracy"] is not None]
    gaps = [one["dgeo"] for one in found if one["dgeo"] is not None]
    return {
        "client_accuracy_least": min(accuracies),
        "client_accuracy_most": max(accuracies),
        "client_dgeo_largest": max(map(abs, gaps), default=float("nan")),
    }


def sent(prepared: Prepared, trained: Trained, solver: Solver, method: str) -> dict[str, Any]:
    """Bytes that all clients together sent and received while training."""
    width = 4 if isinstance(solver, Agp) and method != "af" else 8
    rounds = trained.outcome.rounds + trained.rounds_before
    times = np.int64(width * prepared.federation.clients * rounds)
    return {
        "bytes_up": int(trained.numbers_up * times),
        "bytes_down": int(trained.numbers_down * times),
    }
