"""Every constraint by itself: its limit and its gaps, in losses and in rates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import loss_gap, rate_gap
from fairsilo.fairness import Constraint
from fairsilo.run.problem import Posed


def constraint_gaps(
    posed: Posed,
    limits: float | Sequence[float] | None,
    train: Sequence[dict[str, float | None]] | None,
    test: Tally,
) -> list[dict[str, Any]]:
    """What metrics.json says of each; without limits on losses, epsilon is None."""
    count = len(posed.constraints)
    each = [None] * count if limits is None else np.broadcast_to(limits, count).tolist()
    seen = train or [{"loss": None, "rate": None}] * count
    return [
        {
            "name": posed.describe(constraint),
            "epsilon": limit,
            "train": on_training_rows,
            "test": gaps_of(test, constraint),
        }
        for constraint, limit, on_training_rows in zip(posed.constraints, each, seen, strict=True)
    ]


def gaps_of(tally: Tally, constraint: Constraint) -> dict[str, float | None]:
    """The gap of a constraint in losses and in rates, on some rows."""
    return {"loss": loss_gap(tally, constraint), "rate": rate_gap(tally, constraint)}
