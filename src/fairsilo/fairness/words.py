"""Constraints in words: who is compared with whom, and on which rows."""

import re
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from fairsilo.fairness.constraint import Constraint

_BARE = re.compile(r"-?\d+(\.\d+)?|true|false|yes|no", re.IGNORECASE)


def spelled(column: str, value: str) -> str:
    """A value as a reader understands it: of a number, true or false also the column, female=0."""
    return f"{column}={value}" if column and _BARE.fullmatch(value) else value


def audit_spoken(found: Mapping[str, Any]) -> dict[str, Any]:
    """The content of audit.json with groups and classes as a reader understands them."""

    def named(one: Mapping[str, Any]) -> dict[str, Any]:
        how = {"a": "group", "b": "group", "group": "group", "class": "label"}
        told = {
            key: spelled(str(found[of]), str(one[key])) for key, of in how.items() if key in one
        }
        return {**one, **told}

    lists = {"groups": "group", "protected": "label", "classes": "label"}
    return {
        **found,
        **{key: [spelled(str(found[of]), one) for one in found[key]] for key, of in lists.items()},
        **{key: [named(one) for one in found[key]] for key in ("pairs", "cells")},
    }


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
    return _who(a, b)


def _who(a: Sequence[str], b: Sequence[str]) -> str:
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
    claim = None if constraint.claim is None else classes[constraint.claim]
    return told(*sides_of(constraint, groups, classes), claim, classes)


def told(
    a: Sequence[str],
    b: Sequence[str],
    classes: Sequence[str],
    claim: str | None,
    every: Sequence[str],
) -> str:
    """The same from names: the groups of both sides, the classes whose rows count, and all."""
    if claim is not None:
        return f"{_who(a, b)} predicted {claim}"
    return _who(a, b) if len(classes) == len(every) else f"{_who(a, b)} in {', '.join(classes)}"
