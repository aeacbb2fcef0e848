"""The group of each row: one column or the intersection of several, with small groups pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import codes_and_texts, column, vocabulary
from fairsilo.data.schema import BETWEEN, Schema
from fairsilo.errors import FairSiloError

POOLED = "(other)"
"""The name of the group made of the pooled small groups."""
NO_GROUP = "(none)"
"""The name of the rows without a group: they train the objective, and are compared with nobody."""


def texts(series: pd.Series[Any]) -> list[str]:
    """The values of a column without empty cells, in the spelling of group names."""
    codes, names = codes_and_texts(series)
    return [names[code] for code in codes]


def intersections(columns: Sequence[pd.Series[Any]]) -> pd.Series[Any]:
    """The group of every row, such as "Female & Black"; a single column is its own group."""
    if len(columns) == 1:
        return columns[0]
    cells = zip(*map(texts, columns), strict=True)
    return pd.Series([BETWEEN.join(row) for row in cells], index=columns[0].index, dtype=object)


def group_of(frame: pd.DataFrame, schema: Schema) -> pd.Series[Any]:
    """The group of every row by the schema, missing where one of its columns is empty."""
    names = schema.group_columns or (schema.group,)
    series = crossed([column(frame, name) for name in names])
    if not schema.pooled:
        return series
    values, spelled = codes_and_texts(series)
    small = np.array([text in schema.pooled for text in spelled] + [False])
    return series.astype(object).where(~small[values], POOLED)


def crossed(columns: Sequence[pd.Series[Any]]) -> pd.Series[Any]:
    """The intersections, missing where one of the columns is."""
    filled = np.logical_and.reduce([series.notna() for series in columns])
    if len(columns) == 1 or filled.all():
        return intersections(columns)
    groups = pd.Series(None, index=columns[0].index, dtype=object)
    groups[filled] = intersections([series[filled] for series in columns])
    return groups


def with_groupless(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The groups, and after them the rows that have none."""
    if NO_GROUP in groups:
        raise FairSiloError(
            f"there is a group named {NO_GROUP!r} already, the name of rows without a group: "
            "rename it"
        )
    return (*groups, NO_GROUP)


def grouped_by(
    schema: Schema,
    frame: pd.DataFrame,
    names: tuple[str, ...],
    *,
    drop: bool = False,
    groupless: bool = True,
) -> Schema:
    """The schema with other groups: the values of one column, or the intersections of several.

    `drop` removes these columns from the features. Unless `groupless`, empty cells are an error.
    """
    columns = [column(frame, name) for name in names]
    if not groupless:
        _check_filled(columns)
    series = crossed(columns)
    groups = vocabulary(series)
    if len(groups) < 2:
        raise FairSiloError(
            f"group column {BETWEEN.join(names)!r} needs at least two values but has only "
            f"{groups[0] if groups else None!r}: choose another column"
        )
    if series.isna().any():
        groups = with_groupless(groups)
    return _with_groups(schema, names, groups, drop)


def grouped_as_declared(
    schema: Schema,
    names: tuple[str, ...],
    declared: Mapping[str, tuple[str, ...]],
    *,
    drop: bool = False,
) -> Schema:
    """As `grouped_by`, from the declared values of the columns, whether or not they occur."""
    for name in names:
        if name not in declared:
            raise FairSiloError(
                f"the values of column {name!r} are not declared, and `dp_epsilon` forbids to read "
                "groups off the rows: choose another `group`"
            )
    groups = tuple(map(BETWEEN.join, product(*(declared[name] for name in names))))
    return _with_groups(schema, names, groups, drop)


def _with_groups(
    schema: Schema, names: tuple[str, ...], groups: tuple[str, ...], drop: bool
) -> Schema:
    kept = tuple(f for f in schema.features if not (drop and f.name in names))
    if not kept:
        raise FairSiloError("no column is left as a feature; add feature columns to the table")
    return Schema(
        features=kept,
        label=schema.label,
        classes=schema.classes,
        group=BETWEEN.join(names),
        groups=groups,
        group_columns=names if len(names) > 1 else (),
    )


def without_group(schema: Schema) -> Schema:
    """The schema whose features do not have the columns of the group."""
    names = schema.group_columns or (schema.group,)
    kept = tuple(f for f in schema.features if f.name not in names)
    if not kept:
        raise FairSiloError("no column is left as a feature; add feature columns to the table")
    return schema.model_copy(update={"features": kept})


def small_groups(cells: NDArray[np.int64], smallest: int) -> list[int]:
    """The groups to pool, given the row counts `cells` (groups, protected classes).

    A group with fewer than `smallest` rows in a protected class is pooled. While the pooled groups
    together still have fewer, or there is only one, the smallest other group joins them. At least
    one group always stays unpooled.
    """
    least = cells.min(axis=1)
    order = [int(g) for g in np.argsort(least, kind="stable")]
    count = int(np.sum(least < smallest))
    while 0 < count < len(order) - 1 and (
        count == 1 or cells[order[:count]].sum(axis=0).min() < smallest
    ):
        count += 1
    return sorted(order[: min(count, len(order) - 1)])


def pool(schema: Schema, cells: NDArray[np.int64], smallest: int) -> Schema:
    """The schema with its small groups replaced by one, "(other)", listed last."""
    own = [g for g, name in enumerate(schema.groups) if name != NO_GROUP]
    small = small_groups(cells[own], smallest)
    if len(small) < 2:
        return schema
    pooled = tuple(schema.groups[own[g]] for g in small)
    rest = tuple(name for name in schema.groups if name not in pooled)
    if POOLED in rest:
        raise FairSiloError(
            f"there is a group named {POOLED!r} already, the name of pooled groups: rename it"
        )
    return schema.model_copy(update={"groups": (*rest, POOLED), "pooled": pooled})


def pooled_index(before: Schema, after: Schema) -> NDArray[np.int64]:
    """For every group before pooling its number afterwards."""
    last = len(after.groups) - 1
    places = {name: k for k, name in enumerate(after.groups)}
    return np.array([places.get(name, last) for name in before.groups], np.int64)


def _check_filled(columns: Sequence[pd.Series[Any]]) -> None:
    for series in columns:
        missing = int(series.isna().sum())
        if missing:
            raise FairSiloError(
                f"group column {series.name!r} is empty in {missing} rows; fill these cells or "
                "remove the rows"
            )
