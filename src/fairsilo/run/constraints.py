"""Who is compared in which classes, under which limit: from options to constraints."""

import csv
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairsilo.data import Schema
from fairsilo.data.groups import NO_GROUP
from fairsilo.errors import FairSiloError
from fairsilo.fairness import DEFAULT, NOTIONS, Constraint, Dgeo, comparisons
from fairsilo.fairness.words import sides_of
from fairsilo.run.options import EPSILON, Options

ALL = "all"


@dataclass(frozen=True)
class Compared:
    """What is constrained, and the comparisons that DEO and fairness are measured on."""

    constraints: tuple[Constraint, ...]
    pairs: tuple[Constraint, ...]
    epsilon: float | tuple[float, ...]


def names_of(option: str, text: str) -> tuple[str, ...]:
    """The names of a list with commas, where a name in double quotes may have a comma."""
    try:
        names = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise FairSiloError(
            f"`{option}` {text!r} cannot be read: close the double quotes, and separate by commas"
        ) from None
    return tuple(name.strip() for name in names) or ("",)


def limits_of(text: str) -> tuple[float, tuple[tuple[str, float], ...]]:
    """The limit of all pairs, and those of single pairs: "0.05,Black:White=0.1"."""
    common: list[float] = []
    single: dict[str, float] = {}
    for part in names_of("epsilon", text):
        pair, found, value = part.rpartition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if math.isnan(limit) or pair in single or (not found and common):
            raise FairSiloError(
                f"`epsilon` {text!r} cannot be read: give a number, such as 0.05, and after it "
                "single pairs, each once, such as 0.05,Black:White=0.1"
            )
        if found:
            single[pair.strip()] = limit
        else:
            common.append(limit)
    return (common or [EPSILON])[0], tuple(single.items())


def one_or_more(option: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """A name that is known as it stands, or a list of names; each is named once."""
    names = (text,) if text in known else names_of(option, text)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FairSiloError(f"`{option}` names {twice!r} twice: name each once")
    return names


def protected_of(schema: Schema, wanted: str) -> list[int]:
    """The protected classes as indices: one, several with commas, or "all"."""
    if wanted == ALL and ALL not in schema.classes:
        return list(range(len(schema.classes)))
    names = one_or_more("protected_class", wanted, schema.classes)
    for name in names:
        _check_class(schema, name)
    return [schema.classes.index(name) for name in names]


def groups_of(schema: Schema, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The groups to compare, at least two; all that there are unless some are named."""
    groups = tuple(wanted or (name for name in schema.groups if name != NO_GROUP))
    for group in groups:
        if group in schema.pooled:
            raise FairSiloError(
                f"`groups` {group!r} has too few rows and is pooled in {schema.groups[-1]!r}: "
                "name that one, or lower `pool`"
            )
        if group not in schema.groups:
            comma = any("," in name for name in schema.groups)
            quote = " (in double quotes where a name has a comma)" if comma else ""
            named = ", ".join(repr(name) for name in schema.groups if name != NO_GROUP)
            raise FairSiloError(
                f"`groups` {group!r} is not a value of column {schema.group!r}: choose from "
                f"{named}{quote}"
            )
    if len(set(groups)) < 2:
        raise FairSiloError("`groups` needs at least two different groups, such as Female,Male")
    if len(set(groups)) < len(groups):
        twice = next(group for group in groups if groups.count(group) > 1)
        raise FairSiloError(f"`groups` names {twice!r} twice: name each group once")
    return groups


def compare(
    schema: Schema, options: Options, groups: Sequence[str], protected: Sequence[int]
) -> Compared:
    """The constraints of the options' notion, and their limits."""
    places = [schema.groups.index(group) for group in groups]
    sides = comparisons(places, options.against)  # type: ignore[arg-type]
    classes = len(schema.classes)
    notion = NOTIONS[options.notion]
    constraints = notion.constraints(sides, protected, classes)
    over = range(classes) if notion.every_class else protected
    pairs = DEFAULT.constraints(sides, list(over), classes)
    return Compared(constraints, pairs, _limits(schema, options, constraints))


def _limits(
    schema: Schema, options: Options, constraints: Sequence[Constraint]
) -> float | tuple[float, ...]:
    """The limit of all constraints, or where pairs have their own, one for each constraint."""
    if not options.epsilons:
        return options.epsilon
    names = [_spellings(one, schema) for one in constraints]
    known = dict.fromkeys(spellings[0] for spellings in names)
    for pair, _ in options.epsilons:
        if not any(pair in spellings for spellings in names):
            raise FairSiloError(
                f"`epsilon` names {pair!r}, which is not compared: choose from {', '.join(known)}"
            )
    own = dict(options.epsilons)
    return tuple(
        next((own[name] for name in spellings if name in own), options.epsilon)
        for spellings in names
    )


def _spellings(constraint: Constraint, schema: Schema) -> tuple[str, ...]:
    """How `epsilon` may name a constraint: A:B or B:A; A alone where it stands against many."""
    a, b, _ = sides_of(constraint, schema.groups, schema.classes)
    if len(b) == 1:
        return f"{a[0]}:{b[0]}", f"{b[0]}:{a[0]}"
    return (a[0],)


def every_pair(schema: Schema, groups: Sequence[str], protected: Sequence[str]) -> tuple[Dgeo, ...]:
    """Every pair of the groups in every protected class, or what is wrong with the names."""
    for name in protected:
        _check_class(schema, name)
    pairs = itertools.combinations(map(schema.groups.index, groups_of(schema, groups)), 2)
    cells = itertools.product(map(schema.classes.index, protected), list(pairs))
    return tuple(Dgeo(a, b, c) for c, (a, b) in cells)


def _check_class(schema: Schema, name: str) -> None:
    if name not in schema.classes:
        raise FairSiloError(
            f"`protected_class` {name!r} is not a class of column {schema.label!r}: choose "
            f"one of {', '.join(schema.classes)}, several with commas, or {ALL}"
        )
