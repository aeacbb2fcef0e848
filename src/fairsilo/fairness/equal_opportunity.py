"""Equal opportunity (Hardt, Price, Srebro 2016): in a protected class c, groups fare alike.

    D = L^{a,c} - L^{b,c}        rates: P(predicted c | a, c) - P(predicted c | b, c)

The paper's DGEO, and what is trained unless another notion is asked for.
"""

from collections.abc import Sequence

from fairsilo.fairness.constraint import Constraint, Dgeo, Gap
from fairsilo.fairness.notion import Comparison, Notion


def equal_opportunity(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """A constraint for every comparison in every protected class."""
    return tuple(
        Dgeo(a[0], b[0], c) if len(a) == len(b) == 1 else Gap(a, b, (c,))
        for c in protected
        for a, b in compared
    )


EQUAL_OPPORTUNITY = Notion(
    name="equal-opportunity",
    words="groups fare alike among those who truly are of a protected class",
    constraints=equal_opportunity,
    within_classes=True,
)
