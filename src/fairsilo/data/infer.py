"""Infer a schema from a table: how every column is understood, and what is wrong with it."""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data.columns import MAX_VALUES, MISSING, column, is_number, numbers, vocabulary
from fairsilo.data.dates import COMPACT, are_compact, formats_of, is_date
from fairsilo.data.dialect import MARKED, numbers_as_text, remedy_of, unsigned
from fairsilo.data.groups import with_groupless
from fairsilo.data.schema import Category, Date, Number, Schema
from fairsilo.data.texts import Remarks
from fairsilo.errors import FairSiloError, FairSiloWarning

MANY = 100
"""From this many rows on, a column in which every cell is another names the rows."""
FEWEST = 10
"""From this many distinct values on, text among mostly numbers is taken for a damaged column."""
FEW = 25
"""A column with at most so many different whole numbers may hold codes."""
GROUPS = 20
"""So many different numbers may be groups, not more."""
MANY_TEXTS = 50
"""A category of more texts, each in fewer than FEWEST rows, is a quantity or a date, maybe."""
UNREPEATED = 300
"""From this many rows on, whole numbers of which none occurs twice may be names."""
CLASSES = 100
"""So many different whole numbers may be classes, not more; of others FEWEST."""
PARTS = frozenset(
    ("train", "test", "training", "testing", "val", "valid", "validation", "dev", "holdout")
)
"""What a column that divides rows into parts says."""

NO_REMARKS: Mapping[str, Remarks] = MappingProxyType({})


@dataclass(frozen=True)
class Column:
    """A column as it was understood: a feature, or why it is left out or cannot be used."""

    name: str
    rows: int
    missing: int
    feature: Number | Category | None = None
    left_out: str = ""
    """Why it is no feature, though nothing is wrong with it."""
    problem: str = ""
    """What is wrong, and what to do."""
    doubt: str = ""
    """Why it may not be meant as it is understood."""
    remark: str = ""
    """The same in two or three words."""
    codes: int = 0
    """How many different whole numbers there are, where they are few and may be codes."""


def understood(series: "pd.Series[Any]", name: str, told: bool = False) -> Column:
    """How a column is understood; `told`: it has the kind that the user named for it."""
    about: dict[str, Any] = {
        "name": name, "rows": len(series), "missing": int(series.isna().sum()),
    }  # fmt: skip
    if about["missing"] == about["rows"]:
        return Column(
            **about, problem=f"column {name!r} is empty in every row; remove it, or `drop` it"
        )
    try:
        if is_number(series):
            return _number(series, about, told)
        if is_date(series):
            return Column(**about, feature=Date(name=name))
        return _texts(series, about, told)
    except FairSiloError as error:
        return Column(**about, problem=str(error))


def _number(series: "pd.Series[Any]", about: dict[str, Any], told: bool) -> Column:
    name, rows = about["name"], len(series)
    values = numbers(series, name)
    numbered = rows >= MANY and pd.api.types.is_integer_dtype(series.dtype) and not told
    if numbered and series.is_unique and int(series.max()) - int(series.min()) < 2 * rows:
        return Column(**about, left_out="numbers the rows")
    feature = Number(name=name)
    if told:
        return Column(**about, feature=feature)
    if are_compact(values):
        feature = Date(name=name, format=COMPACT)
        return Column(**about, feature=feature, **_as_date(name, f"{np.nanmin(values):.0f}"))
    if _unrepeated(values):
        doubt = (
            f"holds whole numbers that are all different and is taken for a number: an id? then "
            f"give `drop` {name}"
        )
        return Column(**about, feature=feature, doubt=doubt, remark="all different: an id?")
    return Column(**about, feature=feature, codes=_codes(values))


def _as_date(name: str, written: str) -> dict[str, Any]:
    """What to say of dates that look like numbers."""
    doubt = (
        f"holds {written} and others that are days written as yyyymmdd, and is taken for a date: "
        f"if they are numbers, give `number` {name}"
    )
    return {"doubt": doubt, "remark": "yyyymmdd?"}


def _unrepeated(values: Any) -> bool:
    """Whether there are many whole numbers and none occurs twice."""
    for some in (values[:1000], values):
        known = some[~np.isnan(some)]
        if (known % 1).any() or len(np.unique(known)) < len(known):
            return False
    return len(known) >= UNREPEATED


def _codes(values: Any) -> int:
    """How many whole numbers there are, if they are few; two are the same as a category."""
    for some in (values[:1000], values):
        known = np.unique(some[~np.isnan(some)])
        if len(known) > FEW or (known % 1).any():
            return 0
    return len(known) if len(known) > 2 else 0


def _texts(series: "pd.Series[Any]", about: dict[str, Any], told: bool) -> Column:
    name, values = about["name"], vocabulary(series)
    feature = Category(name=name, values=values, missing=about["missing"] > 0)
    if told:
        return Column(**about, feature=feature)
    written = next((value for value in values if value not in MISSING), "")
    formats = formats_of(values)
    if len(formats) > 1:
        raise FairSiloError(
            f"column {name!r} holds dates that can be read in two ways, such as {written!r}; "
            f"write them as 2024-01-31, or give `drop` {name} or `category` {name}"
        )
    if formats:
        when = Date(name=name, format=formats[0])
        said = _as_date(name, written) if when.format == COMPACT else {}
        return Column(**about, feature=when, **said)
    remedy = remedy_of(values)
    if remedy:
        known = (value for value in values if value not in MISSING)
        written = next(value for value in known if MARKED.search(unsigned(value)))
        signs = "commas" if "," in written else "signs between digits"
        raise FairSiloError(
            f"column {name!r} holds numbers with {signs}, such as {written!r}; give {remedy}, or "
            f"`category` {name} if they are names"
        )
    if len(values) >= FEWEST:
        cells = pd.Series(values, dtype=object)
        others = cells[pd.to_numeric(cells, errors="coerce").isna()]
        _check_mixed(len(values), len(others), next(iter(others), None), name)
    if len(values) > 1 and {value.strip().lower() for value in values} <= PARTS:
        return Column(
            **about, left_out=f"says which rows are for testing (`split` {name} would use it)"
        )
    return _category(feature, about, written)


def _category(feature: Category, about: dict[str, Any], written: str) -> Column:
    """A column of texts that are neither dates nor numbers in another spelling."""
    values, name, rows = feature.values, feature.name, about["rows"]
    count = len(values)
    if count > MAX_VALUES or (rows >= MANY and count > 0.9 * rows):
        return Column(**about, left_out=_remarks(count, rows))
    if numbers_as_text(values):
        doubt = (
            f"holds numbers as texts, such as {written!r}, and is taken for a category: write "
            "them as the other numbers are written"
        )
        return Column(**about, feature=feature, doubt=doubt, remark="numbers as texts")
    if count > MANY_TEXTS and count * FEWEST > rows:
        doubt = (
            f"has {count:,} different texts in {rows:,} rows, which become {count:,} columns: a "
            f"date? write it as 2024-01-31; a number? write it as 1234.5; or give `drop` {name}"
        )
        return Column(**about, feature=feature, doubt=doubt, remark="many texts")
    return Column(**about, feature=feature)


def infer_schema(
    frame: pd.DataFrame,
    *,
    label: str,
    group: str,
    exclude: Iterable[str] = (),
    drop_group: bool = False,
    told: Collection[str] = (),
    groupless: bool = True,
    remarks: Mapping[str, Remarks] = NO_REMARKS,
) -> Schema:
    """Infer the schema: every column is a feature, except the label and those excluded.

    Numeric columns are numbers, dates are days, all others (true/false too) categories. `told` are
    columns whose kind the user named. A column that names rows or parts, or has too many different
    texts, is left out with a warning. Whatever is wrong is said at once, in one error: a column
    without any value, since dropping it silently would hide that a file was written wrongly, or
    one of numbers with some text, which would become a category with numbers as its values.
    Unless `groupless`, rows without a group are an error, too. `remarks` are columns whose texts
    were counted as they were read, and not kept.
    """
    if not all(isinstance(name, str) for name in frame.columns) or not frame.columns.is_unique:
        raise FairSiloError("column names must be texts that occur once; rename the columns")
    if label == group:
        raise FairSiloError(f"label and group are both {label!r}; choose two different columns")
    problems: list[str] = []
    exclude = tuple(exclude)
    classes = _collected(problems, lambda: classes_in(frame, label))
    groups = _collected(problems, lambda: groups_of(frame, group, groupless))
    left_out = {label, *exclude}
    for name in exclude:
        _collected(problems, lambda name=name: tuple(column(frame, name).index[:0]))  # type: ignore[misc]
    if drop_group:
        left_out.add(group)
    kept = [name for name in frame.columns if name not in left_out]
    columns = [understood(frame[name], name, name in told) for name in kept]
    columns += [counted(one, name, len(frame)) for name, one in remarks.items()]
    problems += [one.problem for one in columns if one.problem]
    raise_all(problems)
    for one in columns:
        if one.left_out or one.doubt:
            told = f"{one.left_out}: it was left out" if one.left_out else one.doubt
            warnings.warn(f"column {one.name!r} {told}", FairSiloWarning, stacklevel=2)
    features = tuple(one.feature for one in columns if one.feature is not None)
    if not features:
        raise FairSiloError("no column is left as a feature; add feature columns to the table")
    return Schema(features=features, label=label, classes=classes, group=group, groups=groups)


def may_be_codes(frame: pd.DataFrame) -> list[tuple[str, int]]:
    """Columns of few whole numbers, which may name things instead of counting them, with how many.

    Two values are the same as a number and as a category.
    """
    each = ((str(name), frame[name]) for name in frame.columns)
    found = ((name, _codes(numbers(one, name))) for name, one in each if is_number(one))
    return [(name, count) for name, count in found if count]


def warn_of_codes(frame: pd.DataFrame, names: Collection[str]) -> None:
    """Of these columns name those that may be codes: as a number, code 8 is twice code 4."""
    found = may_be_codes(frame[[name for name in frame.columns if name in names]])
    if not found:
        return
    listed = ",".join(name for name, _ in found)
    if len(found) == 1:
        words = (
            f"column {listed!r} has {found[0][1]} different whole numbers and is taken for a "
            f"number: if they are codes, give `category` {listed}"
        )
    else:
        shown = ", ".join(f"{name!r} ({count})" for name, count in found)
        words = (
            f"columns {shown} have few different whole numbers and are taken for numbers: those "
            f"that are codes give as `category`, such as `category` {listed}"
        )
    warnings.warn(words, FairSiloWarning, stacklevel=2)


def raise_all(problems: list[str]) -> None:
    """One error for all that is wrong."""
    if len(problems) == 1:
        raise FairSiloError(problems[0])
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise FairSiloError(f"the table has {len(problems)} problems:\n{listed}")


def _collected(problems: list[str], find: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return find()
    except FairSiloError as error:
        problems.append(str(error))
        return ()


def classes_in(frame: pd.DataFrame, label: str) -> tuple[str, ...]:
    """The classes of the label; a label that is a quantity has none."""
    series = column(frame, label)
    if is_number(series):
        values = np.unique(numbers(series, label))
        whole = not (values[~np.isnan(values)] % 1).any()
        if len(values) > (CLASSES if whole else FEWEST):
            raise FairSiloError(
                f"label column {label!r} has {len(values):,} different numbers, a quantity and no "
                "class; add a column that says which rows are above a limit, and give that as "
                "`label`"
            )
    return at_least_two(series, label, "label", "class")


def groups_of(frame: pd.DataFrame, group: str, groupless: bool) -> tuple[str, ...]:
    """The groups of a column, and where they are allowed and found the rows without one."""
    series = column(frame, group)
    missing = bool(series.isna().any()) and groupless
    filled = series[series.notna()] if missing else series
    found = at_least_two(filled, group, "group", "group")
    if is_number(series) and len(found) > GROUPS:
        raise FairSiloError(
            f"group column {group!r} has {len(found)} different numbers, too many groups to "
            "compare; add a column with a few ranges of them, such as 'under 40' and '40 or "
            "over', and give that as `group`"
        )
    return with_groupless(found) if missing else found


def at_least_two(series: "pd.Series[Any]", name: str, role: str, noun: str) -> tuple[str, ...]:
    """The values of a label or group column; fewer than two are an error."""
    missing = int(series.isna().sum())
    if missing:
        raise FairSiloError(
            f"{role} column {name!r} is empty in {missing} rows; fill these cells or "
            "remove the rows"
        )
    values = vocabulary(series)
    if len(values) > MAX_VALUES:
        raise FairSiloError(
            f"column {name!r} has {len(values)} different values where at most {MAX_VALUES} make a "
            "category; group its values, or choose another column"
        )
    if len(values) < 2:
        found = repr(values[0]) if values else "none"
        raise FairSiloError(
            f"{role} column {name!r} needs at least two values but has only one {noun}, {found}; "
            "use a table with more, or another column"
        )
    return values


def _check_mixed(values: int, others: int, first: str | None, name: str) -> None:
    """Refuse a text column with many distinct values, more than half of which are numbers."""
    if 0 < 2 * others < values:
        raise FairSiloError(
            f"column {name!r} holds numbers but also the text {first!r}; correct or empty "
            f"such cells, or, if its numbers are names, give `category` {name}"
        )


def counted(remarks: Remarks, name: str, rows: int) -> Column:
    """How a column is understood whose texts were counted and not kept: as `understood`."""
    others = remarks.texts.settle()
    count = others + remarks.numbers.settle()
    about: dict[str, Any] = {"name": name, "rows": rows, "missing": remarks.missing}
    try:
        _check_mixed(count, others, remarks.first, name)
    except FairSiloError as error:
        return Column(**about, problem=str(error))
    return Column(**about, left_out=_remarks(count, rows))


def _remarks(count: int, rows: int) -> str:
    return f"has {count:,} different texts in {rows:,} rows, like names or remarks"
