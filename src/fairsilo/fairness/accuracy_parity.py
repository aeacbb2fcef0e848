"""Accuracy parity: the model serves the groups equally well on the whole.

D = L^a - L^b      rates: P(right | a) - P(right | b)
"""

from collections.abc import Sequence

from fairsilo.fairness.constraint import Constraint, Gap
from fairsilo.fairness.notion import Comparison, Notion


def accuracy_parity(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """A constraint for every comparison, over rows of all classes; none is protected."""
    everyone = tuple(range(classes))
    return tuple(Gap(a, b, everyone) for a, b in compared)


ACCURACY_PARITY = Notion(
    name="accuracy-parity",
    words="groups fare alike on the whole",
    constraints=accuracy_parity,
    by_rates=True,
    caveat="The groups are compared on the whole: gaps within single classes can remain, and "
    "cancel each other out.",
)
