"""Fairness: constraints as row weights, estimators, and the notions, each in one file."""

from fairsilo.fairness.accuracy_parity import ACCURACY_PARITY
from fairsilo.fairness.bounded_loss import BOUNDED_LOSS
from fairsilo.fairness.constraint import (
    ESTIMATORS,
    Constraint,
    Dgeo,
    Estimator,
    Gap,
    Totals,
    check_defined,
    count_cells,
)
from fairsilo.fairness.demographic_parity import DEMOGRAPHIC_PARITY
from fairsilo.fairness.equal_opportunity import EQUAL_OPPORTUNITY as DEFAULT
from fairsilo.fairness.equalized_odds import EQUALIZED_ODDS
from fairsilo.fairness.notion import AGAINST, Against, Comparison, Notion, comparisons
from fairsilo.registry import Registry

OWN = (DEFAULT, EQUALIZED_ODDS, DEMOGRAPHIC_PARITY, ACCURACY_PARITY, BOUNDED_LOSS)
NOTIONS: Registry[Notion] = Registry(
    "notion", "fairsilo.notions", {notion.name: notion for notion in OWN}
)
"""The notions of fairness by their names on the command line."""

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
]
