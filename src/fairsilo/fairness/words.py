"""Constraints in words: who is compared with whom, and on which rows."""

from collections.abc import Sequence
from itertools import compress

import numpy as np

from fairsilo.fairness.constraint import Constraint


def sides_of(
    constraint: Constraint, groups: Sequence[str], classes: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """The names of the groups on either side, and of the classes whose rows count."""
    plus, minus = constraint.sides(len(groups), len(classes))
    a, b = (list(compress(groups, np.any(side, axis=1))) for side in (plus, minus))
    return a, b, list(compress(classes, np.any(plus, axis=0)))


def pair_name(constraint: Constraint, groups: Sequence[str], classes: Sequence[str]) -> str:
    """Who is compared: "Female - Male", "White - the others", or one group alone."""
    a, b, _ = sides_of(constraint, groups, classes)
    if not b:
        return " + ".join(a)
    return f"{' + '.join(a)} - {b[0] if len(b) == 1 else 'the others'}"


def class_name(constraint: Constraint, groups: Sequence[str], classes: Sequence[str]) -> str:
    """On which rows: the class ">50K", "all", or "predicted >50K" for a claim."""
    if constraint.claim is not None:
        return f"predicted {classes[constraint.claim]}"
    _, _, names = sides_of(constraint, groups, classes)
    return "all" if len(names) == len(classes) else ", ".join(names)


def describe(constraint: Constraint, groups: Sequence[str], classes: Sequence[str]) -> str:
    """Both: "Female - Male in >50K"."""
    where = class_name(constraint, groups, classes)
    pair = pair_name(constraint, groups, classes)
    if constraint.claim is not None:
        return f"{pair} {where}"
    return pair if where == "all" else f"{pair} in {where}"
