"""What a notion of fairness is: a name, words, and a choice of constraints.

Who is compared with whom is apart: every pair of groups, or each group with all the others.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from fairsilo.fairness.constraint import Constraint

Against = Literal["pairs", "rest"]
AGAINST: tuple[Against, ...] = get_args(Against)
Comparison = tuple[tuple[int, ...], tuple[int, ...]]
"""Groups on either side, as indices."""
Choose = Callable[[Sequence[Comparison], Sequence[int], int], tuple[Constraint, ...]]
"""From the comparisons, the protected classes and the number of classes to the constraints."""


@dataclass(frozen=True)
class Notion:
    """A notion of fairness. Other packages add theirs by the entry point `fairsilo.notions`."""

    name: str
    words: str
    """What is equal, in one line."""
    constraints: Choose
    every_class: bool = False
    """Whether all classes are protected, whichever the user names."""
    rates: bool = True
    """Whether it is about a difference of rates, too, so that a target in rates makes sense."""
    by_rates: bool = False
    """Whether, unless told otherwise, rates are limited and not losses, which for this notion say
    little of the rates."""
    alone: bool = False
    """Whether each group is limited by itself, which can be more than any model reaches."""
    claims: bool = False
    """Whether rows are measured under a class that is not their own."""
    within_classes: bool = False
    """Whether groups are compared in each protected class, which is what DEO and DGEO measure."""
    caveat: str = ""
    """What it leaves out, in a sentence or two, for reports."""


def comparisons(groups: Sequence[int], against: Against) -> tuple[Comparison, ...]:
    """The comparisons of the groups, in their order.

    Of two groups each is the other's rest, so that there is one comparison in any case.
    """
    if against == "pairs" or len(groups) == 2:
        return tuple(((a,), (b,)) for a, b in itertools.combinations(groups, 2))
    return tuple(((a,), tuple(b for b in groups if b != a)) for a in groups)
