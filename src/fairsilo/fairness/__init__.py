"""Fairness: constraints as row weights, notions, estimators."""

from fairsilo.fairness.compare import AGAINST, Against, Comparison, comparisons
from fairsilo.fairness.constraint import (
    ESTIMATORS,
    Constraint,
    Dgeo,
    Estimator,
    Gap,
    Totals,
    check_defined,
    count_cells,
    row_weights,
)
from fairsilo.fairness.notions import DEFAULT, NOTIONS, Notion

__all__ = [
    "AGAINST",
    "DEFAULT",
    "ESTIMATORS",
    "NOTIONS",
    "Against",
    "Comparison",
    "Constraint",
    "Dgeo",
    "Estimator",
    "Gap",
    "Notion",
    "Totals",
    "check_defined",
    "comparisons",
    "count_cells",
    "row_weights",
]
