"""What a notion of fairness is: a name, words, and a choice of constraints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairsilo.fairness.compare import Comparison
from fairsilo.fairness.constraint import Constraint

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
    alone: bool = False
    """Whether each group is limited by itself, which can be more than any model reaches."""
    claims: bool = False
    """Whether rows are measured under a class that is not their own."""
    within_classes: bool = False
    """Whether groups are compared in each protected class, which is what DEO and DGEO measure."""
    caveat: str = ""
    """What it leaves out, in a sentence or two, for reports."""
