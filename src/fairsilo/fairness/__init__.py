"""Fairness: constraints as row weights, estimators."""

from fairsilo.fairness.constraint import (
    ESTIMATORS,
    Dgeo,
    Estimator,
    Totals,
    check_defined,
    count_cells,
    row_weights,
)

__all__ = [
    "ESTIMATORS",
    "Dgeo",
    "Estimator",
    "Totals",
    "check_defined",
    "count_cells",
    "row_weights",
]
