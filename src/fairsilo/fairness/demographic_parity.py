"""Demographic parity: the protected class is predicted equally often, whoever deserves it.

    D = E[-log p(c | x) | a] - E[-log p(c | x) | b]      rates: P(predicted c | a) - P(... | b)

The loss here is the one a row would have if its class were c, so that a constant model, which is
as fair as can be, has D = 0 whatever the groups' shares of class c.
"""

from collections.abc import Sequence

from fairsilo.fairness.constraint import Constraint, Gap
from fairsilo.fairness.notion import Comparison, Notion


def demographic_parity(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """A constraint for every comparison and every protected class, over rows of all classes."""
    everyone = tuple(range(classes))
    return tuple(Gap(a, b, everyone, claim=c) for c in protected for a, b in compared)


DEMOGRAPHIC_PARITY = Notion(
    name="demographic-parity",
    words="the protected class is predicted equally readily for all groups",
    constraints=demographic_parity,
    claims=True,
    by_rates=True,
    caveat="Who deserves an answer does not count in demographic parity: it is to be given to all "
    "groups equally often, rightly or wrongly.",
)
