"""Every constraint by itself: its limit and its gaps, in losses and in rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import loss_gap, rate_gap
from fairsilo.fairness import Constraint
from fairsilo.method import Task
from fairsilo.run.prepare import Prepared


def constraint_gaps(
    prepared: Prepared,
    task: Task,
    limited: bool,
    train: Sequence[dict[str, float | None]] | None,
    test: Tally,
) -> list[dict[str, Any]]:
    """What metrics.json says of each; without a limit on losses, epsilon is None."""
    count = len(prepared.constraints)
    limits = np.broadcast_to(task.epsilon, count)
    seen = train or [{"loss": None, "rate": None}] * count
    return [
        {
            "name": prepared.describe(constraint),
            "epsilon": float(limit) if limited else None,
            "train": on_training_rows,
            "test": gaps_of(test, constraint),
        }
        for constraint, limit, on_training_rows in zip(
            prepared.constraints, limits, seen, strict=True
        )
    ]


def gaps_of(tally: Tally, constraint: Constraint) -> dict[str, float | None]:
    """The gap of a constraint in losses and in rates, on some rows."""
    return {"loss": loss_gap(tally, constraint), "rate": rate_gap(tally, constraint)}
