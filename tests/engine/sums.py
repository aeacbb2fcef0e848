"""The sums, compiled as in the engines: otherwise every operation is compiled separately."""

from __future__ import annotations

from collections.abc import Sequence

from fairsilo.compute import jax
from fairsilo.fairness import Constraint, Estimator
from fairsilo.fairness.weigh import weighted
from fairsilo.partition.federation import Federation
from fairsilo.sums import Rows, local_sums, row_sums

compiled_sums = jax.jit(row_sums, static_argnames=("model", "order", "measure"))
compiled_local = jax.jit(local_sums, static_argnames=("model", "order"))


def weighted_rows(
    federation: Federation,
    constraints: Sequence[Constraint],
    estimator: Estimator = "pooled",
    min_cell: int = 0,
) -> Rows:
    """All silos' rows that a round asks about, with their weights."""
    asked, w, v = weighted(federation, constraints, estimator, min_cell)
    return Rows(asked.x, asked.y, w, v)  # type: ignore[arg-type]
