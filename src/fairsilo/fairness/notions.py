"""The notions of fairness by their names on the command line; each is a choice of row weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairsilo.fairness.accuracy_parity import accuracy_parity
from fairsilo.fairness.bounded_loss import bounded_loss
from fairsilo.fairness.compare import Comparison
from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.demographic_parity import demographic_parity
from fairsilo.fairness.equal_opportunity import equal_opportunity
from fairsilo.fairness.equalized_odds import equalized_odds

Notion = Callable[[Sequence[Comparison], Sequence[int], int], tuple[Constraint, ...]]
"""From the comparisons, the protected classes and the number of classes to the constraints."""

NOTIONS: dict[str, Notion] = {
    "equal-opportunity": equal_opportunity,
    "equalized-odds": equalized_odds,
    "demographic-parity": demographic_parity,
    "accuracy-parity": accuracy_parity,
    "bounded-loss": bounded_loss,
}
