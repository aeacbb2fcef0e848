"""Equalised odds (Hardt, Price, Srebro 2016): equal opportunity in every class.

D = L^{a,c} - L^{b,c}  for all c      rates: P(predicted c | a, c) - P(predicted c | b, c)
"""

from __future__ import annotations

from collections.abc import Sequence

from fairsilo.fairness.compare import Comparison
from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.equal_opportunity import equal_opportunity


def equalized_odds(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """Whatever class is protected, all of them are."""
    return equal_opportunity(compared, range(classes), classes)
