"""Features from declared bounds, for differential privacy, without looking at the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from pydantic import ValidationError

from fairsilo.data.columns import is_number
from fairsilo.data.schema import Category, Feature, Number, Schema
from fairsilo.estimator.inputs import texts_of


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
    return tuple(_declared(frame[name], str(name), bounds.get(name)) for name in frame.columns)


def bounds_of(schema: Schema) -> dict[str, Any]:
    """The `bounds` that a schema was made from."""
    return {f.name: f.bounds if isinstance(f, Number) else list(f.values) for f in schema.features}


def _declared(series: pd.Series[Any], name: str, told: Any) -> Feature:
    number = is_number(series)
    wanted = "(lowest, highest)" if number else "['one value', 'another', ...]"
    if told is None:
        raise ValueError(
            f"column {name!r} of X is not in bounds, and what is read off the rows would tell of "
            f"them: add {name!r}: {wanted} as publicly known"
        )
    try:
        if number:
            low, high = told
            return Number(name=name, bounds=(float(low), float(high)))
        if isinstance(told, str) or not isinstance(told, Iterable):
            raise TypeError(told)
        return Category(name=name, values=tuple(texts_of(told)), missing=True, other=True)
    except (TypeError, ValueError, ValidationError):
        raise ValueError(f"bounds of column {name!r} are {told!r}: give {wanted}") from None
