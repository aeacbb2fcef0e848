"""Infer a schema from a table."""

import warnings
from collections.abc import Iterable
from typing import Any

import pandas as pd

from fairsilo.data.columns import column, is_number, numbers, vocabulary
from fairsilo.data.schema import Category, Number, Schema
from fairsilo.errors import FairSiloError, FairSiloWarning

MAX_VALUES = 1000
"""More distinct values than this make a column free text or an identifier, not a category."""
MANY = 100
"""From this many rows on, a column in which every cell is another names the rows."""
FEWEST = 10
"""From this many distinct values on, text among mostly numbers is taken for a damaged column."""


def infer_schema(
    frame: pd.DataFrame,
    *,
    label: str,
    group: str,
    exclude: Iterable[str] = (),
    drop_group: bool = False,
) -> Schema:
    """Infer the schema: every column is a feature, except the label and those excluded.

    Numeric columns are numbers, all others (true/false too) categories. A column that names rows,
    or has too many different texts, is left out with a warning. A column without any value is an
    error, since dropping it silently would hide that a file was written wrongly. So is a
    column of numbers with some text, which would become a category with numbers as its values.
    """
    if not all(isinstance(name, str) for name in frame.columns) or not frame.columns.is_unique:
        raise FairSiloError("column names must be texts that occur once; rename the columns")
    if label == group:
        raise FairSiloError(f"label and group are both {label!r}; choose two different columns")
    classes = at_least_two(column(frame, label), label, "label", "class")
    groups = at_least_two(column(frame, group), group, "group", "group")
    left_out = {label, *exclude}
    for name in left_out:
        column(frame, name)
    if drop_group:
        left_out.add(group)
    kept = [name for name in frame.columns if name not in left_out]
    unusable = {name: why for name in kept if (why := _unusable(frame[name]))}
    for name, why in unusable.items():
        warnings.warn(f"column {name!r} {why}: it was left out", FairSiloWarning, stacklevel=2)
    features = tuple(_feature(frame[name], name) for name in kept if name not in unusable)
    if not features:
        raise FairSiloError("no column is left as a feature; add feature columns to the table")
    return Schema(features=features, label=label, classes=classes, group=group, groups=groups)


def _unusable(series: "pd.Series[Any]") -> str:
    """Why a column cannot be a feature: it names rows, or every text is another; "" if it can."""
    rows = len(series)
    if is_number(series):
        numbered = rows >= MANY and pd.api.types.is_integer_dtype(series.dtype)
        if numbered and series.is_unique and int(series.max()) - int(series.min()) < 2 * rows:
            return "numbers the rows"
        return ""
    values = vocabulary(series)
    _check_mixed(values, str(series.name))
    count = len(values)
    if count > MAX_VALUES or (rows >= MANY and count > 0.9 * rows):
        return f"has {count:,} different texts in {rows:,} rows, like names, dates or remarks"
    return ""


def at_least_two(series: "pd.Series[Any]", name: str, role: str, noun: str) -> tuple[str, ...]:
    """The values of a label or group column; fewer than two are an error."""
    missing = int(series.isna().sum())
    if missing:
        raise FairSiloError(
            f"{role} column {name!r} is empty in {missing} rows; fill these cells or "
            "remove the rows"
        )
    values = _limited(vocabulary(series), name)
    if len(values) < 2:
        found = repr(values[0]) if values else "none"
        raise FairSiloError(
            f"{role} column {name!r} needs at least two values but has only one {noun}, {found}; "
            "use a table with more, or another column"
        )
    return values


def _feature(series: "pd.Series[Any]", name: str) -> Number | Category:
    empty = series.isna()
    if empty.all():
        raise FairSiloError(f"column {name!r} is empty in every row; remove it from the table")
    if is_number(series):
        numbers(series, name)
        return Number(name=name)
    values = vocabulary(series)
    return Category(name=name, values=values, missing=bool(empty.any()))


def _check_mixed(values: tuple[str, ...], name: str) -> None:
    """Refuse a text column with many distinct values, more than half of which are numbers."""
    if len(values) < FEWEST:
        return
    distinct = pd.Series(values, dtype=object)
    texts = distinct[pd.to_numeric(distinct, errors="coerce").isna()]
    if 0 < 2 * len(texts) < len(values):
        raise FairSiloError(
            f"column {name!r} holds numbers but also the text {texts.iloc[0]!r}; correct or empty "
            "such cells, or, if its numbers are names, put a letter before each"
        )


def _limited(values: tuple[str, ...], name: str) -> tuple[str, ...]:
    if len(values) > MAX_VALUES:
        raise FairSiloError(
            f"column {name!r} has {len(values)} different values where at most {MAX_VALUES} make a "
            "category; remove the column or group its values"
        )
    return values
