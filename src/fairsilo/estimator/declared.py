"""What a private fit knows beforehand, declared and never read off the rows.

Columns, classes, groups and clients are those that the parameters name. A row of no declared class
or client is no row, one of no declared group has none, a cell of no declared kind is missing: one
row changes nothing of another, and refuses nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import ValidationError

from fairsilo.arrays import Ints, Mask
from fairsilo.data.columns import positions, readable
from fairsilo.data.groups import NO_GROUP
from fairsilo.data.schema import Category, Feature, Number, Schema
from fairsilo.estimator.inputs import same_length, texts_of
from fairsilo.estimator.problem import Compared, protected_classes


def declared_features(frame: pd.DataFrame, bounds: Any) -> tuple[Feature, ...]:
    """A feature for every column of X: numbers with their bounds, categories with their values.

    A category always has a column for missing and one for other values, even if none occurs.
    """
    if not isinstance(bounds, Mapping):
        raise ValueError(
            "dp_epsilon needs bounds, and what is read off the rows would tell of them: pass "
            "bounds={'age': (16, 100), 'job': ['clerk', 'nurse'], ...} as publicly known, for "
            "every column of X"
        )
    unknown = [name for name in bounds if name not in frame.columns]
    if unknown:
        raise ValueError(f"bounds names {unknown[0]!r}, which is not a column of X: leave it out")
    return tuple(_declared(str(name), bounds.get(name)) for name in frame.columns)


def read_as(frame: pd.DataFrame, features: Sequence[Feature]) -> pd.DataFrame:
    """The table with declared numbers as numbers; a cell that is none is missing."""
    numbers = (f.name for f in features if isinstance(f, Number))
    return frame.assign(**{name: readable(frame[name]) for name in numbers})


def bounds_of(schema: Schema) -> dict[str, Any]:
    """The `bounds` that a schema was made from."""
    return {f.name: f.bounds if isinstance(f, Number) else list(f.values) for f in schema.features}


def declared_classes(classes: Any, y: Any) -> tuple[npt.NDArray[Any], Ints]:
    """The declared classes, sorted, and the index of each row's class, -1 for none of them."""
    if classes is None or isinstance(classes, str) or not isinstance(classes, Iterable):
        raise ValueError(
            "dp_epsilon needs classes, and what is read off the rows would tell of them: pass all "
            f"classes of y, such as classes=[0, 1], and not {classes!r}"
        )
    known = np.unique(np.asarray(list(classes)))
    if len(known) < 2:
        raise ValueError("classes has fewer than two: name all classes of y")
    if np.ndim(y) != 1:
        raise ValueError("y must have one dimension: pass one class per row")
    return known, np.maximum(positions(pd.Series(y), texts_of(known.tolist())), -1)


def declared_groups(
    sensitive: pd.Series[Any],
    columns: tuple[str, ...],
    classes: Sequence[Any],
    groups: Any,
    protected_class: Any,
) -> Compared:
    """The declared groups, all compared; rows of others have none."""
    if groups is None or isinstance(groups, str) or not np.iterable(groups):
        raise ValueError(
            "dp_epsilon needs groups, and what is read off the rows would tell of them: pass the "
            f"groups to compare, such as groups=['Female', 'Male'], and not {groups!r}"
        )
    wanted = tuple(dict.fromkeys(texts_of(groups)))
    if len(wanted) < 2:
        raise ValueError("groups has fewer than two: name those to compare")
    place = positions(sensitive, wanted)
    s = np.where(place < 0, len(wanted), place)
    protected = tuple(protected_classes(classes, protected_class))
    return Compared((*wanted, NO_GROUP), s, wanted, protected, columns)


def declared_clients(values: Any, rows: int, names: Any) -> tuple[Ints, tuple[str, ...]]:
    """The index of the client that holds each row, -1 for none of those declared."""
    if values is None:
        return np.zeros(rows, np.int64), ("all",)
    if names is None or isinstance(names, str) or not np.iterable(names):
        raise ValueError(
            "dp_epsilon needs client_names, and what is read off the rows would tell of them: pass "
            f"all values of clients, such as client_names=['a', 'b', 'c'], and not {names!r}"
        )
    if np.ndim(values) != 1:
        raise ValueError("clients must have one dimension: pass the holder's name for each row")
    same_length("clients", len(values), rows)
    known = tuple(dict.fromkeys(texts_of(names)))
    return np.maximum(positions(pd.Series(values), known), -1), known


def known_rows(codes: Ints, holders: Ints) -> Mask:
    """Which rows have a declared class and client; a warning tells the owner of the others."""
    known: Mask = (codes >= 0) & (holders >= 0)
    if not known.all():
        warnings.warn(
            f"{int((~known).sum())} rows of no declared class or client were left out",
            UserWarning,
            stacklevel=3,
        )
    return known


def _declared(name: str, told: Any) -> Feature:
    wanted = "(lowest, highest) of a number, or ['one value', 'another', ...] of a category"
    if told is None:
        raise ValueError(
            f"column {name!r} of X is not in bounds, and what is read off the rows would tell of "
            f"them: add {name!r}: {wanted}, as publicly known"
        )
    try:
        if isinstance(told, tuple):
            low, high = told
            return Number(name=name, bounds=(float(low), float(high)))
        if isinstance(told, str) or not isinstance(told, Iterable):
            raise TypeError(told)
        values = list(told)
        if len(values) == 2 and all(isinstance(one, Real) for one in values):
            # Two numbers in a list may be meant either way.
            raise TypeError(told)
        return Category(name=name, values=tuple(texts_of(values)), missing=True, other=True)
    except (TypeError, ValueError, ValidationError):
        raise ValueError(f"bounds of column {name!r} are {told!r}: give {wanted}") from None
