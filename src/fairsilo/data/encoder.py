"""Encode a table: numbers standardised, categories as codes of their one-hot columns.

The encoder is fitted from sums over rows alone (count, sum, sum of squares), so that silos can fit
it without showing a row, and a simulation and a network get the same numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray

from fairsilo.coded import Coded, Table, dense
from fairsilo.data.binned import Binned
from fairsilo.data.columns import column, positions
from fairsilo.data.dates import measured
from fairsilo.data.hot import hot, labels_of, width_of
from fairsilo.data.schema import Category, Number, Schema
from fairsilo.errors import FairSiloError

BLOCK = 1 << 18
"""Rows that are encoded at a time."""
LOST = 1e-12
"""A variance below this share of the mean square is rounding error of the sums."""


@dataclass(frozen=True, eq=False)
class EncoderSums:
    """One silo's sums for the encoder; added over silos, they are the sums of all rows."""

    names: tuple[str, ...]
    rows: float
    """How many; where rows have weights, their sum, and so of all sums."""
    count: NDArray[np.float64]
    total: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(
        cls, frame: pd.DataFrame, schema: Schema, weight: NDArray[np.float64] | None = None
    ) -> Self:
        """Sum the numeric columns of one table; missing cells count in `rows` alone.

        Where values are too large to square, so are the sums: whoever fits an encoder says so. A
        silo that refused here would tell of its rows.
        """
        names = schema.numbers
        count, total, squares = np.zeros((3, len(names)))
        for k, feature in enumerate(f for f in schema.features if isinstance(f, Number)):
            values = measured(frame, feature)
            known = ~np.isnan(values)
            present = values[known]
            times = np.ones(1) if weight is None else weight[known]
            with np.errstate(over="ignore"):
                count[k] = len(present) if weight is None else times.sum()
                total[k], squares[k] = (times * present).sum(), (times * np.square(present)).sum()
        rows = len(frame) if weight is None else weight.sum()
        return cls(names, rows, count, total, squares)

    def __add__(self, other: Self) -> Self:
        if self.names != other.names:
            raise ValueError("sums of different schemas do not add up")
        return type(self)(
            self.names,
            self.rows + other.rows,
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
        )


@dataclass(frozen=True)
class Scaling:
    """How one numeric column is standardised, and whether missing cells have an indicator."""

    mean: float
    scale: float
    missing: bool


@dataclass(frozen=True)
class Encoder:
    """A fitted encoder: the schema and the scaling of each numeric column, in order."""

    schema: Schema
    scalings: tuple[Scaling, ...]
    binned: Binned | None = None
    """Steps instead of standardised numbers, for models that have a curve for each number."""

    @classmethod
    def fit(cls, schema: Schema, sums: EncoderSums) -> Self:
        """Compute mean and population standard deviation from the sums of all silos."""
        if sums.names != schema.numbers:
            raise ValueError("these sums belong to another schema")
        return cls(schema, tuple(_scaling(sums, k) for k in range(len(sums.names))))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each column of the matrix, such as `age` or `sex=Female`."""
        if self.binned is not None:
            return self.binned.names(self.schema)
        scalings = iter(self.scalings)
        names: list[str] = []
        for feature in self.schema.features:
            name = feature.name
            if isinstance(feature, Number):
                names += [name] + [f"{name} (missing)"] * next(scalings).missing
            else:
                names += [f"{name}={value}" for value in labels_of(feature)]
        return tuple(names)

    @property
    def widths(self) -> tuple[int, ...]:
        """The kind of each block of columns, in order: 0 for a number, else a category's width."""
        if self.binned is not None:
            return tuple(block.width for block in self.binned.blocks(self.schema))
        scalings = iter(self.scalings)
        widths: list[int] = []
        for feature in self.schema.features:
            if isinstance(feature, Number):
                widths += [0] + [1] * next(scalings).missing
            elif width_of(feature):
                widths.append(width_of(feature))
        return tuple(widths)

    def encode(self, frame: pd.DataFrame, dtype: DTypeLike = np.float64) -> Table:
        """Encode a table: one row per row, numbers of that type, categories as codes."""
        starts = range(0, len(frame), BLOCK)
        blocks = (self._columns(frame.iloc[start : start + BLOCK]) for start in starts)
        return Coded.of_blocks(self.widths, blocks, len(frame), dtype)

    def transform(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Encode a table as the matrix itself: one column per feature name."""
        matrix: NDArray[np.float64] = dense(self.encode(frame))
        return matrix

    def _columns(self, frame: pd.DataFrame) -> Iterator[NDArray[Any]]:
        """For each of `widths`, the numbers, or the index of the hot column (-1 if all zero)."""
        if self.binned is not None:
            yield from self.binned.columns(self.schema, frame)
            return
        scalings = iter(self.scalings)
        for feature in self.schema.features:
            if isinstance(feature, Number):
                scaling = next(scalings)
                z = (measured(frame, feature) - scaling.mean) / scaling.scale
                missing = np.isnan(z)
                # A missing number is replaced by the federated mean, which encodes as 0.
                yield np.where(missing, 0.0, z)
                if scaling.missing:
                    yield missing.astype(np.int64) - 1
            elif width_of(feature):
                yield hot(column(frame, feature.name), feature)

    def unseen(self, frame: pd.DataFrame) -> dict[str, int]:
        """Count the cells outside the vocabulary, for each category column that has any.

        An empty cell counts if the category has no column for missing values.
        """
        counts: dict[str, int] = {}
        for feature in self.schema.features:
            if isinstance(feature, Category):
                place = positions(column(frame, feature.name), feature.values)
                count = int(np.sum(place == -2) + (not feature.missing) * np.sum(place == -1))
                if count:
                    counts[feature.name] = count
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a JSON file; floats are restored exactly."""
        return {
            "schema": self.schema.model_dump(mode="json"),
            "scalings": [asdict(scaling) for scaling in self.scalings],
            **({} if self.binned is None else {"binned": self.binned.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild the encoder that `to_json` described."""
        try:
            schema = Schema.model_validate(data["schema"])
            scalings = tuple(
                Scaling(float(s["mean"]), float(s["scale"]), bool(s["missing"]))
                for s in data["scalings"]
            )
            binned = Binned.from_json(data["binned"]) if "binned" in data else None
            if binned is not None:
                binned.check(schema)
        except (KeyError, TypeError, ValueError):
            raise FairSiloError("the saved encoder is damaged; train the model again") from None
        usable = all(np.isfinite([s.mean, s.scale]).all() and s.scale > 0 for s in scalings)
        if len(scalings) != len(schema.numbers) or not usable:
            raise FairSiloError("the saved encoder is damaged; train the model again")
        return cls(schema, scalings, binned)


def _scaling(sums: EncoderSums, k: int) -> Scaling:
    missing = bool(sums.count[k] < sums.rows)
    if sums.count[k] == 0:
        return Scaling(0.0, 1.0, missing)
    mean = sums.total[k] / sums.count[k]
    mean_square = sums.squares[k] / sums.count[k]
    if not np.isfinite(mean_square):
        raise FairSiloError(f"column {sums.names[k]!r} has values too large to square; rescale it")
    variance = mean_square - mean * mean
    scale = np.sqrt(variance) if variance > LOST * mean_square else 1.0
    return Scaling(float(mean), float(scale), missing)
