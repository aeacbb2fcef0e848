"""A table as it is understood, before anything is trained: `fairsilo data look`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pandas as pd

from fairsilo.data.alike import alike
from fairsilo.data.columns import codes_and_texts, column
from fairsilo.data.dates import measured
from fairsilo.data.groups import NO_GROUP, crossed, grouped_by
from fairsilo.data.infer import Column, classes_in, groups_of, understood, warn_of_codes
from fairsilo.data.leakage import ALONE, leaks
from fairsilo.data.schema import Category, Date, Number, Schema
from fairsilo.data.weights import weights_in
from fairsilo.errors import FairSiloError, FairSiloWarning

OUT = "left out, as asked"
SHOWN = 4
"""So many values of a category are named."""


@dataclass(frozen=True)
class Line:
    """One column in words."""

    name: str
    kind: str
    values: str
    missing: int
    remark: str = ""


@dataclass(frozen=True)
class Look:
    """Everything that is said of a table."""

    rows: int
    lines: list[Line]
    groups: pd.DataFrame | None = None
    """Rows by group (lines) and client (columns), where both are named."""
    problems: list[str] = field(default_factory=list)
    """What keeps it from being trained on."""
    suspicious: list[str] = field(default_factory=list)
    """What may not be meant."""
    schema: Schema | None = None
    """The draft of a schema, of what can be used."""


def look_at(
    frame: pd.DataFrame,
    *,
    label: str | None = None,
    group: Sequence[str] = (),
    client: str | None = None,
    weight: str | None = None,
    exclude: Collection[str] = (),
    told: Collection[str] = (),
    drop_group: bool = False,
    groupless: bool = True,
) -> Look:
    """How every column is understood; what is wrong and what is suspicious, all of it."""
    problems: list[str] = []
    for name in dict.fromkeys((label, *group, client, weight, *exclude)):
        if name is not None and name not in frame.columns:
            problems += _said(partial(column, frame, name))
    if weight in frame.columns:
        problems += _said(partial(weights_in, frame, str(weight)))
    roles: dict[str | None, str] = dict.fromkeys((one for one in exclude if one not in group), OUT)
    roles |= {label: "label", client: "client", weight: "weight"}
    columns = [understood(frame[name], name, name in told) for name in frame.columns]
    lines = [_line(frame, one, roles.get(one.name, ""), one.name in group) for one in columns]
    problems += [one.problem for one in columns if one.problem and one.name not in roles]
    suspicious = [
        f"column {one.name!r} " + (one.doubt or f"{one.left_out}: it is left out")
        for one in columns
        if (one.left_out or one.doubt) and one.name not in roles
    ]
    features = tuple(
        one.feature
        for one in columns
        if one.feature is not None and one.name not in {*roles, *exclude}
        and not (drop_group and one.name in group)
    )  # fmt: skip
    suspicious += _codes(frame, {one.name for one in features} - {*told})
    suspicious += alike(frame, (label, *group, client))
    schema = None
    if label in frame.columns and group and set(group) <= set(frame.columns):
        assert label is not None
        schema, more = _schema(frame, label, group, features, groupless)
        problems += more
        if schema is not None and not more:
            leaking = list(_leaks(frame, schema, group, client))
            lines = [_given_away(one, leaking) for one in lines]
            suspicious += leaking
    return Look(len(frame), lines, _groups(frame, group, client), problems, suspicious, schema)


def _line(frame: pd.DataFrame, one: Column, role: str, grouped: bool) -> Line:
    feature = one.feature
    if isinstance(feature, Category):
        shown = ", ".join(feature.values[:SHOWN])
        more = len(feature.values) - SHOWN
        values = f"{shown}, and {more:,} more" if more > 0 else shown
        kind = f"category, {len(feature.values):,}"
    elif feature is not None:
        kind = "date" if isinstance(feature, Date) else "number"
        values = _range(frame, feature)
    else:
        kind, values = "", ""
    remark = "problem" * bool(one.problem) or "left out" * bool(one.left_out) or one.remark
    if one.codes:
        remark = f"{one.codes} whole numbers: codes?"
    role = role or ("group" if grouped else "")
    return Line(one.name, role if feature is None else f"{role}, {kind}" if role else kind,
                values, one.missing, "" if role and not grouped else remark)  # fmt: skip


def _range(frame: pd.DataFrame, feature: Number) -> str:
    """From the least to the largest."""
    values = measured(frame, feature)
    low, high = np.nanmin(values), np.nanmax(values)
    if not isinstance(feature, Date):
        return f"{low:g} to {high:g}"
    first, last = (pd.Timestamp("1970-01-01") + pd.Timedelta(days=one) for one in (low, high))
    return f"{first.date()} to {last.date()}"


def _codes(frame: pd.DataFrame, names: Collection[str]) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FairSiloWarning)
        warn_of_codes(frame, names)
    return [str(one.message) for one in told]


def _schema(
    frame: pd.DataFrame,
    label: str,
    names: Sequence[str],
    features: tuple[Number | Category, ...],
    groupless: bool,
) -> tuple[Schema | None, list[str]]:
    """The draft, and why label or group are not what they should be."""
    group = names[0]
    said = _said(lambda: classes_in(frame, label))
    said += _said(lambda: groups_of(frame, group, groupless))
    # A draft of a table that is refused has what there is, for its owner to correct.
    classes = _texts(frame, label)
    groups = _texts(frame, group)
    if label == group or not features:
        return None, [*said, "no column is left as a feature; add feature columns to the table"]
    if frame[group].isna().any():
        groups = (*groups, NO_GROUP)
    schema = Schema(features=features, label=label, classes=classes, group=group, groups=groups)
    if len(names) > 1 and not said:
        try:
            schema = grouped_by(schema, frame, tuple(names), groupless=groupless)
        except FairSiloError as error:
            said = [str(error)]
    return schema, said


def _texts(frame: pd.DataFrame, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(codes_and_texts(frame[name])[1]))


def _leaks(
    frame: pd.DataFrame, schema: Schema, group: Sequence[str], client: str | None
) -> Iterator[str]:
    codes = codes_and_texts(frame[schema.label])[0]
    if (codes >= 0).all():
        known = client if client in frame.columns else None
        yield from leaks(frame, schema, codes, group, known)


def _given_away(line: Line, leaking: Sequence[str]) -> Line:
    """The line, with what its column gives away as its remark."""
    own = [one for one in leaking if one.startswith(f"column {line.name!r} ")]
    told = ["predicts the label" if ALONE in one else "same as group or client" for one in own]
    return replace(line, remark=told[0]) if told else line


def _groups(frame: pd.DataFrame, group: Sequence[str], client: str | None) -> pd.DataFrame | None:
    """Rows by group and client."""
    if not group or not set(group) <= set(frame.columns):
        return None
    codes, names = codes_and_texts(crossed([frame[name] for name in group]))
    if client is None or client not in frame.columns:
        holder, holders = np.zeros(len(frame), np.int64), ["rows"]
    else:
        holder, holders = codes_and_texts(frame[client])
        holders = [*holders, NO_GROUP]
    names = [*names, NO_GROUP]
    place = (codes % len(names)) * len(holders) + holder % len(holders)
    counts = np.bincount(place, minlength=len(names) * len(holders))
    found = pd.DataFrame(counts.reshape(len(names), -1), index=names, columns=holders)
    return found.loc[found.any(axis=1), found.any(axis=0)]


def _said(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except FairSiloError as error:
        return [str(error)]
    return []
