"""What the columns of a table mean, agreed before training and saved with the model.

Does not import pandas: a silo reads the schema for every message, and most need no table.
"""

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairsilo.errors import FairSiloError

BETWEEN = " & "
"""Separates the values of several columns in the name of an intersection."""


class Number(BaseModel):
    """A numeric feature, standardised."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["number"] = "number"
    name: str
    bounds: tuple[float, float] | None = None
    """The lowest and highest value, from public knowledge: differential privacy needs them and
    must not take them from the rows. Values beyond are clipped to the bound."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.bounds and not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise ValueError(f"the bounds of {self.name!r} must be two numbers, the lower first")
        return self


class Date(Number):
    """A date, a numeric feature too: days since 1970-01-01, with a fraction for the time of day."""

    kind: Literal["date"] = "date"  # type: ignore[assignment]
    format: str = ""
    """How its texts are written, such as %d.%m.%Y; "" if the column has a type of dates."""


class Category(BaseModel):
    """A categorical feature, one-hot over a declared vocabulary.

    `missing` adds a column for empty cells, `other` one for values outside the vocabulary; without
    them, such a cell is zero in every column.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["category"] = "category"
    name: str
    values: tuple[str, ...]
    missing: bool = False
    other: bool = False


Feature = Annotated[Number | Date | Category, Field(discriminator="kind")]


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
    """The columns whose intersection is the group; empty if the group is a single column."""
    pooled: tuple[str, ...] = ()
    """The small groups that were pooled into the last of `groups`."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the numeric features, in order."""
        return tuple(f.name for f in self.features if isinstance(f, Number))

    @property
    def dates(self) -> dict[str, str]:
        """Of the numeric features those that are dates, and how they are written."""
        return {f.name: f.format for f in self.features if isinstance(f, Date)}

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
    """Read a declared schema: a JSON object like `schema` in a run's model.json."""
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
