"""What the columns of a table mean, agreed before training and saved with the model."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairsilo.data.columns import column, is_number, numbers, vocabulary
from fairsilo.errors import FairSiloError

MAX_VALUES = 1000
"""More distinct values than this make a column free text or an identifier, not a category."""
BETWEEN = " & "
"""Between the values of several columns in the name of an intersection."""
FEWEST = 10
"""Of so many distinct values, a column that is mostly numbers is taken for a damaged number."""


class Number(BaseModel):
    """A numeric feature, standardised."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["number"] = "number"
    name: str
    bounds: tuple[float, float] | None = None
    """The least and the largest value, as publicly known: differential privacy needs them, and
    must not read them off the rows. A value beyond counts as the bound."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.bounds and not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise ValueError(f"the bounds of {self.name!r} must be two numbers, the lower first")
        return self


class Category(BaseModel):
    """A categorical feature, one-hot over a declared vocabulary.

    With `missing` an empty cell, with `other` a value outside the vocabulary has a column of its
    own; without, such a cell is zero in every column.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["category"] = "category"
    name: str
    values: tuple[str, ...]
    missing: bool = False
    other: bool = False


Feature = Annotated[Number | Category, Field(discriminator="kind")]


class Schema(BaseModel):
    """The features, the label with its classes and the group column with all its values.

    The group column is a feature only if it is also listed in `features`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: tuple[Feature, ...]
    label: str
    classes: tuple[str, ...]
    group: str
    groups: tuple[str, ...]
    group_columns: tuple[str, ...] = ()
    """Of an intersection, the columns that it is made of; otherwise empty."""
    pooled: tuple[str, ...] = ()
    """The groups too small to stand alone, which count as the last of `groups`."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the numeric features, in order."""
        return tuple(f.name for f in self.features if isinstance(f, Number))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all feature columns, in order."""
        return tuple(f.name for f in self.features)

    @property
    def vocabularies(self) -> dict[str, tuple[str, ...]]:
        """The values of every column that is read as text: categories, label and group."""
        found = {f.name: f.values for f in self.features if isinstance(f, Category)}
        found[self.label] = self.classes
        groups = (*self.groups, *self.pooled)
        if not self.group_columns:
            found[self.group] = (*found.get(self.group, ()), *groups)
        for place, name in enumerate(self.group_columns):
            parts = [group.split(BETWEEN) for group in groups]
            own = (part[place] for part in parts if len(part) == len(self.group_columns))
            found[name] = (*found.get(name, ()), *own)
        return found

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        vocabularies = [f.values for f in self.features if isinstance(f, Category)]
        for names in (self.columns, self.classes, self.groups, *vocabularies):
            if len(set(names)) < len(names):
                raise ValueError(f"a name occurs twice in {names}")
        if self.label in self.columns or self.label == self.group:
            raise ValueError(f"the label {self.label!r} is also a feature or the group")
        return self


def read_schema(path: Path) -> Schema:
    """Read a declared schema: the JSON object that `schema` is in a run's model.json."""
    try:
        return Schema.model_validate_json(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise FairSiloError(
            f"cannot read the schema {path} ({reason}): give a JSON file such as the value of "
            '"schema" in a run\'s model.json'
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise FairSiloError(f"{path} is not a valid schema ({where}: {first['msg']})") from None


def infer_schema(
    frame: pd.DataFrame,
    *,
    label: str,
    group: str,
    exclude: Iterable[str] = (),
    drop_group: bool = False,
) -> Schema:
    """Read the schema off a table: every column is a feature but the label and those excluded.

    Numeric columns are numbers, all others (true/false too) categories. A column without a single
    value is an error, since leaving it out unsaid would hide that a file was written wrongly; so
    is a column of numbers with text among them, which would become a category of numbers.
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
    features = tuple(_feature(frame[n], n) for n in frame.columns if n not in left_out)
    if not features:
        raise FairSiloError("no column is left as a feature; add feature columns to the table")
    return Schema(features=features, label=label, classes=classes, group=group, groups=groups)


def at_least_two(series: "pd.Series[Any]", name: str, role: str, noun: str) -> tuple[str, ...]:
    """The values of a label or group column, of which one alone is no use."""
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
    _check_mixed(values, name)
    values = _limited(values, name)
    return Category(name=name, values=values, missing=bool(empty.any()))


def _check_mixed(values: tuple[str, ...], name: str) -> None:
    """Refuse numbers with a few texts among them: more than half of many distinct values."""
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
