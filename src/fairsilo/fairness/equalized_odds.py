"""Equalised odds (Hardt, Price, Srebro 2016): equal opportunity in every class.

D = L^{a,c} - L^{b,c}  for all c      rates: P(predicted c | a, c) - P(predicted c | b, c)
"""

from collections.abc import Sequence

from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.equal_opportunity import equal_opportunity
from fairsilo.fairness.notion import Comparison, Notion


def equalized_odds(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """Ignores `protected`; constrains every class."""
    return equal_opportunity(compared, range(classes), classes)


EQUALIZED_ODDS = Notion(
    name="equalized-odds",
    words="groups fare alike among the people of every class",
    constraints=equalized_odds,
    by_rates=True,
    every_class=True,
    within_classes=True,
)
