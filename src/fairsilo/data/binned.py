"""Numbers as steps and categories with rare values pooled: the columns of an additive model.

Every feature is one block of columns, one-hot. Pairs of features may follow, a block each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import WIDEST
from fairsilo.data.columns import column
from fairsilo.data.dates import measured
from fairsilo.data.hot import hot, labels_of, width_of
from fairsilo.data.schema import Number, Schema
from fairsilo.data.steps import FINE, Pair, Steps, steps_of

MOST_STEPS = 32
FEWER_STEPS = 16
"""Under noise, which every step has more of the fewer rows it has."""
FAINT, SURE = 2.0, 4.0
"""Counts below so many deviations of the noise are taken for none: of a grid's many cells, where
what is lost goes to the neighbours, and of a value or of missing cells."""
RARE = 10
"""Values of a category with fewer training rows are pooled, where there are several."""
MOST_VALUES = WIDEST - 5
"""But so many at most stay, the most frequent ones."""
CELLS = 64
"""The most cells of a pair."""
MOST_PARAMETERS = 2_000
"""Of a model, pairs included: what a (p, p) matrix allows."""


@dataclass(frozen=True)
class Block:
    """A feature, or a pair of them: its columns in words, and where they lie."""

    name: str
    labels: tuple[str, ...]
    start: int
    steps: Steps | None = None
    """Of a number."""
    pair: Pair | None = None

    @property
    def width(self) -> int:
        """How many columns it has."""
        return len(self.labels)

    @property
    def places(self) -> slice:
        """Its columns."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True)
class Binned:
    """The steps of every number, the rare values of every category, and pairs of features."""

    steps: tuple[Steps, ...]
    rare: tuple[tuple[int, ...], ...]
    """For each category, which of its one-hot columns are pooled as the last one."""
    pairs: tuple[Pair, ...] = ()

    def blocks(self, schema: Schema) -> tuple[Block, ...]:
        """All blocks in the order of their columns; features without any column have none."""
        steps, rare = iter(self.steps), iter(self.rare)
        found: list[tuple[str, tuple[str, ...], Steps | None, Pair | None]] = []
        for feature in schema.features:
            if isinstance(feature, Number):
                own = next(steps)
                found.append((feature.name, own.labels, own, None))
            else:
                pooled = next(rare)
                labels = labels_of(feature)
                kept = tuple(one for k, one in enumerate(labels) if k not in pooled)
                if labels:
                    found.append((feature.name, kept + ("(rare)",) * bool(pooled), None, None))
        names = [name for name, *_ in found]
        for pair in self.pairs:
            cells = tuple(f"{a},{b}" for a in range(pair.shape[0]) for b in range(pair.shape[1]))
            found.append((f"{names[pair.first]} & {names[pair.second]}", cells, None, pair))
        starts = accumulate((len(labels) for _, labels, *_ in found), initial=0)
        return tuple(
            Block(name, labels, start, own, pair)
            for (name, labels, own, pair), start in zip(found, starts, strict=False)
        )

    def crossed(self, main: Sequence[Ints]) -> list[Ints]:
        """For each pair the cell of every row, from its columns in the features' blocks."""
        return [pair.codes(main[pair.first], main[pair.second]) for pair in self.pairs]

    def names(self, schema: Schema) -> tuple[str, ...]:
        """The name of each column, such as `age=[22, 25)` or `sex=Female`."""
        return tuple(
            f"{block.name}={label}" for block in self.blocks(schema) for label in block.labels
        )

    def columns(self, schema: Schema, frame: pd.DataFrame) -> Iterator[NDArray[Any]]:
        """For each block, the column of every row within it, -1 for none."""
        main = list(self._features(schema, frame))
        yield from main
        yield from self.crossed(main)

    def _features(self, schema: Schema, frame: pd.DataFrame) -> Iterator[NDArray[Any]]:
        steps, rare = iter(self.steps), iter(self.rare)
        for feature in schema.features:
            if isinstance(feature, Number):
                yield next(steps).codes(measured(frame, feature))
            else:
                place = places_of(width_of(feature), next(rare))
                if width_of(feature):
                    yield place[hot(column(frame, feature.name), feature)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        return {
            "steps": [vars(one) for one in self.steps],
            "rare": self.rare,
            "pairs": [vars(one) for one in self.pairs],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` described."""
        return cls(
            tuple(
                Steps(_floats(one["edges"]), _ints(one["spikes"]), bool(one["missing"]))
                for one in data["steps"]
            ),
            tuple(map(_ints, data["rare"])),
            tuple(
                Pair(
                    int(one["first"]), int(one["second"]), _ints(one["rows"]), _ints(one["columns"])
                )
                for one in data["pairs"]
            ),
        )

    def check(self, schema: Schema) -> None:
        """Raise `ValueError` where this does not fit the schema, or is larger than any model."""
        categories = [width_of(f) for f in schema.features if not isinstance(f, Number)]
        if len(self.steps) != len(schema.numbers) or len(self.rare) != len(categories):
            raise ValueError("other columns")
        for one in self.steps:
            if not np.isfinite(one.edges).all() or (np.diff(one.edges) <= 0).any():
                raise ValueError("edges that do not ascend")
        for rare, width in zip(self.rare, categories, strict=True):
            if any(not 0 <= one < width for one in rare):
                raise ValueError("values that there are not")
        blocks = self.__class__(self.steps, self.rare).blocks(schema)
        for pair in self.pairs:
            for place, own in ((pair.first, pair.rows), (pair.second, pair.columns)):
                if not 0 <= place < len(blocks) or len(own) != blocks[place].width or min(own) < 0:
                    raise ValueError("pairs of columns that there are not")
            if pair.width > CELLS:
                raise ValueError("a pair of too many cells")
        if any(block.width > WIDEST for block in self.blocks(schema)):
            raise ValueError("too many columns")


def _floats(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(int, values))


def places_of(width: int, rare: Sequence[int]) -> Ints:
    """For each one-hot column its new place, and -1 for none; the rare ones are the last."""
    kept = np.setdiff1d(np.arange(width), rare)
    place = np.full(width + 1, len(kept), np.int64)
    place[kept] = np.arange(len(kept))
    place[-1] = -1
    return place


@dataclass(frozen=True, eq=False)
class Histograms:
    """Counts over all silos: of every number over its grid, of every category by value."""

    edges: tuple[Floats, ...]
    numbers: tuple[Floats, ...]
    missing: Floats
    categories: tuple[Floats, ...]

    def heard(self, noise: float) -> Histograms:
        """Without the counts that noise of this deviation may have made alone."""

        def above(counts: Floats, times: float) -> Floats:
            return np.where(counts > times * noise, counts, 0.0)

        return Histograms(
            self.edges,
            tuple(above(one, FAINT) for one in self.numbers),
            above(self.missing, SURE),
            tuple(above(one, SURE) for one in self.categories),
        )

    def binned(self, schema: Schema, outputs: int, steps: int = MOST_STEPS) -> Binned:
        """At most so many steps, and rare values: few enough for a model with so many scores.

        First the rarest values make room for FEWER_STEPS, then numbers have fewer.
        """
        most = MOST_PARAMETERS // outputs - 1
        kept = min((FEWER_STEPS + 1) * len(self.numbers), most // 2)
        rare = _rare(self.categories, most - kept)
        taken = _width(self.categories, rare)
        room = (most - taken) // max(len(self.numbers), 1) - 1
        every = tuple(
            steps_of(edges, counts, missing, int(np.clip(room, 2, steps)))
            for edges, counts, missing in zip(self.edges, self.numbers, self.missing, strict=True)
        )
        return Binned(every, rare)

    def rows(self, binned: Binned, schema: Schema) -> tuple[Floats, ...]:
        """The rows in every column of the features' blocks; of a step to within a cell or two."""
        found: list[Floats] = []
        numeric, categories = iter(range(len(self.numbers))), iter(range(len(self.categories)))
        for feature in schema.features:
            if isinstance(feature, Number):
                k = next(numeric)
                inner = self.edges[k]
                cells = np.concatenate(
                    [inner[:1] - 1, (inner[1:] + inner[:-1]) / 2, inner[-1:] + 1]
                )
                step = np.append(binned.steps[k].codes(cells), len(binned.steps[k].edges) + 1)
                rows = np.append(self.numbers[k], self.missing[k])
                found.append(_totals(step, rows)[: binned.steps[k].width])
            else:
                k = next(categories)
                counts = self.categories[k]
                if len(counts):
                    place = places_of(len(counts), binned.rare[k])[:-1]
                    found.append(_totals(place, counts))
        return tuple(found)


def _totals(place: Ints, rows: Floats) -> Floats:
    return np.bincount(place, rows).astype(np.float64)


def _rare(categories: Sequence[Floats], room: int) -> tuple[tuple[int, ...], ...]:
    """Of each category the values with few rows, and those beyond the most frequent; then the
    rarest of all until there is room for the others. One alone is not pooled."""
    counts = np.concatenate([*categories, np.zeros(0)])
    ranks = [np.argsort(np.argsort(-one, kind="stable"), kind="stable") for one in categories]
    rank = np.concatenate([*ranks, np.zeros(0)])
    few = (counts < RARE) | (rank >= MOST_VALUES)
    # Of values with as many rows, those of categories with many such go first.
    order, ends = np.lexsort((-rank, counts, ~few)), np.cumsum([len(one) for one in categories])

    def pooled(most: int) -> tuple[tuple[int, ...], ...]:
        chosen = np.isin(np.arange(len(counts)), order[:most])
        each = (np.flatnonzero(own).tolist() for own in np.split(chosen, ends)[:-1])
        return tuple(tuple(own) if len(own) > 1 else () for own in each)

    tried = range(int(few.sum()), len(counts) + 1)
    at = bisect_left(tried, True, key=lambda k: _width(categories, pooled(k)) <= room)
    return pooled(tried[min(at, len(tried) - 1)])


def _width(categories: Sequence[Floats], rare: Sequence[Sequence[int]]) -> int:
    """The columns of all categories."""
    each = zip(categories, rare, strict=True)
    return sum(len(one) - len(few) + bool(few) for one, few in each)


def grids(schema: Schema, edges: Floats) -> list[Floats]:
    """The grid of every number, from all of them in one vector."""
    return np.split(edges, len(schema.numbers)) if schema.numbers else []


def counted(frame: pd.DataFrame, schema: Schema, edges: Floats) -> Floats:
    """One silo's counts: of every number in its grid, missing ones last; then categories."""
    parts: list[Floats] = []
    grid = iter(grids(schema, edges))
    for feature in schema.features:
        if isinstance(feature, Number):
            inner = next(grid)
            cells = Steps(tuple(inner), (), True).codes(measured(frame, feature))
            parts.append(np.bincount(cells, minlength=len(inner) + 2).astype(np.float64))
        else:
            width = width_of(feature)
            place = hot(column(frame, feature.name), feature)
            parts.append(np.bincount(place[place >= 0], minlength=width).astype(np.float64))
    return np.concatenate([*parts, np.zeros(0)])


def read_counts(vector: Floats, schema: Schema, edges: Floats) -> Histograms:
    """What the sum of the silos' counts says."""
    numeric, missing, categories = [], [], []
    every = grids(schema, edges)
    cells = len(every[0]) + 2 if every else 0
    for feature in schema.features:
        if isinstance(feature, Number):
            own, vector = vector[:cells], vector[cells:]
            numeric.append(own[:-1])
            missing.append(own[-1])
        else:
            width = width_of(feature)
            own, vector = vector[:width], vector[width:]
            categories.append(own)
    return Histograms(tuple(every), tuple(numeric), np.array(missing), tuple(categories))


def counts_length(schema: Schema, cells: int = FINE) -> int:
    """How many numbers `counted` has, with grids of so many cells."""
    categories = (width_of(f) for f in schema.features if not isinstance(f, Number))
    return len(schema.numbers) * (cells + 1) + sum(categories)
