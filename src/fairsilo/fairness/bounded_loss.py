"""Bounded group loss (Agarwal, Dudik, Wu 2019): no group's mean loss is above epsilon.

D = L^a <= epsilon      for every group a; a loss is never negative, so |D| <= epsilon is that
"""

from collections.abc import Sequence

from fairsilo.fairness.constraint import Constraint, Gap
from fairsilo.fairness.notion import Comparison, Notion


def bounded_loss(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """A constraint for every group that is compared, over rows of all classes."""
    everyone = tuple(range(classes))
    groups = dict.fromkeys(group for a, b in compared for group in (*a, *b))
    return tuple(Gap((group,), (), everyone) for group in groups)


BOUNDED_LOSS = Notion(
    name="bounded-loss",
    words="no group's average loss is above the limit",
    constraints=bounded_loss,
    rates=False,
    alone=True,
    caveat="Every group is limited by itself: the groups may be treated differently below the "
    "limit.",
)
