"""Rows as codes: a category of 40 values is one byte a row instead of 40 columns of 0 and 1.

`Coded` stands for the matrix X of numbers and one-hot columns without holding it. Everything that
logistic regression needs of X are three products, and each is a look-up or a count by code:

    X W          a row of W for each category
    X' G         the rows of G, added up by category
    X' diag(c) X for two categories, a contingency table with weights c
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats, Ints

WIDEST = 255
"""Columns that one byte can name; a wider category becomes several codes."""
VALUES = WIDEST + 1
"""Values of a code, the blank included."""
ALIGNED = 64
"""On a CPU, JAX does not copy an array that begins at a multiple of so many bytes."""


@dataclass(frozen=True)
class Layout:
    """Which columns of the dense matrix are numbers, and where each category's columns lie."""

    numbers: tuple[int, ...]
    categories: tuple[tuple[int, int], ...]
    """The first column and the number of columns of each; they lie side by side."""
    codes: tuple[tuple[int, ...], ...]
    """The categories that each code speaks of: small ones share one, the first varying slowest."""

    @classmethod
    def of(cls, widths: Sequence[int]) -> Layout:
        """`widths` says what the columns are: 0 a number, else a category's width."""
        starts = [0, *accumulate(width or 1 for width in widths)]
        numbers = tuple(start for start, width in zip(starts, widths, strict=False) if not width)
        categories = tuple(
            (start + skipped, min(WIDEST, width - skipped))
            for start, width in zip(starts, widths, strict=False)
            for skipped in range(0, width, WIDEST)
        )
        return cls(numbers, categories, _shared([width + 1 for _, width in categories]))

    @property
    def width(self) -> int:
        """How many columns the dense matrix has."""
        return len(self.numbers) + sum(width for _, width in self.categories)

    def radices(self, code: int) -> list[int]:
        """How many values each category of a code has, the blank included."""
        return [self.categories[category][1] + 1 for category in self.codes[code]]

    @property
    def places(self) -> list[tuple[int, int, int]]:
        """For each category its code, how many values it has, and how much one adds to the code."""
        found = {}
        for code, categories in enumerate(self.codes):
            stride = 1
            for category, radix in zip(categories[::-1], self.radices(code)[::-1], strict=True):
                found[category] = (code, radix, stride)
                stride *= radix
        return [found[category] for category in range(len(found))]

    def columns(self, code: int) -> Ints:
        """The columns of the dense matrix that a code speaks of."""
        spans = (self.categories[category] for category in self.codes[code])
        return np.concatenate([np.arange(start, start + width) for start, width in spans])

    @property
    def order(self) -> Ints:
        """Where each dense column is, when numbers come first and the codes' columns follow."""
        every = [np.array(self.numbers, np.int64), *map(self.columns, range(len(self.codes)))]
        return np.argsort(np.concatenate(every))


def _shared(radices: list[int]) -> tuple[tuple[int, ...], ...]:
    """Which categories share a byte: the largest first, each where it still fits."""
    codes: list[list[int]] = []
    room: list[int] = []
    for category in sorted(range(len(radices)), key=lambda c: -radices[c]):
        radix = radices[category]
        fits = [j for j, left in enumerate(room) if left >= radix]
        if not fits:
            fits = [len(codes)]
            codes.append([])
            room.append(VALUES)
        codes[fits[0]].append(category)
        room[fits[0]] //= radix
    return tuple(map(tuple, codes))


@lru_cache(maxsize=256)
def meaning(layout: Layout, code: int) -> Floats:
    """What each value of a code stands for: zeros and ones in its `columns`, (VALUES, columns)."""
    rows = np.zeros((1, 0))
    for radix in layout.radices(code):
        own = np.eye(radix)[:, :-1]
        rows = np.hstack([np.repeat(rows, radix, axis=0), np.tile(own, (len(rows), 1))])
    return np.pad(rows, ((0, VALUES - len(rows)), (0, 0)))


@dataclass(frozen=True, eq=False)
class Coded:
    """Rows as numbers (n, a) and codes (n, b).

    Value c of a category stands for a one in its column c; a value as large as the number of its
    columns, the blank, for zeros in all of them. A code holds the values of one category or more.
    """

    numbers: Any
    codes: Any
    layout: Layout

    @classmethod
    def of(
        cls,
        widths: Sequence[int],
        columns: Iterable[npt.NDArray[Any]],
        rows: int,
        dtype: npt.DTypeLike = np.float64,
    ) -> Table:
        """From a column for each of `widths`: numbers, or values of a category, -1 for none.

        Without any category the rows are a matrix already.
        """
        return cls.of_blocks(widths, [columns], rows, dtype)

    @classmethod
    def of_blocks(
        cls,
        widths: Sequence[int],
        blocks: Iterable[Iterable[npt.NDArray[Any]]],
        rows: int,
        dtype: npt.DTypeLike = np.float64,
    ) -> Table:
        """`of`, from blocks of rows and their columns one by one: none need stay in memory."""
        layout, start = Layout.of(widths), 0
        numbers = aligned((rows, len(layout.numbers)), dtype)
        codes = aligned((rows, len(layout.codes)), np.uint8)
        codes[:] = 0
        for columns in blocks:
            places, count, size = iter(layout.places), 0, 0
            for column, width in zip(columns, widths, strict=True):
                size = len(column)
                if not width:
                    numbers[start : start + size, count] = column
                    count += 1
                for skipped in range(0, width, WIDEST):
                    code, radix, stride = next(places)
                    value = column - skipped
                    value[(value < 0) | (value >= radix)] = radix - 1
                    codes[start : start + size, code] += (value * stride).astype(np.uint8)
            start += size
        return cls(numbers, codes, layout) if layout.codes else numbers

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Coded:
        return Coded(self.numbers[rows], self.codes[rows], self.layout)

    @property
    def ndim(self) -> int:
        """As many axes as the dense matrix has."""
        return int(self.codes.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense matrix."""
        return (*self.codes.shape[:-1], self.layout.width)

    @property
    def nbytes(self) -> int:
        """The bytes of numbers and codes."""
        return int(self.numbers.nbytes + self.codes.nbytes)

    def __matmul__(self, weight: Any) -> Any:
        """X @ weight, for a vector or a matrix."""
        # einsum is twice as fast as BLAS for many rows of few numbers.
        product = np.einsum("na,a...->n...", self.numbers, weight[list(self.layout.numbers)])
        for j in range(len(self.layout.codes)):
            values = meaning(self.layout, j) @ weight[self.layout.columns(j)]
            product += values.take(self.codes[:, j], axis=0)
        return product

    def matrix(self) -> Any:
        """The matrix (n, features) that the rows stand for."""
        hot = [meaning(self.layout, j)[self.codes[:, j]] for j in range(len(self.layout.codes))]
        found = np.concatenate([self.numbers, *hot], axis=1, dtype=self.numbers.dtype)
        return found[:, self.layout.order]


Table = Any
"""The features of rows: a matrix, or `Coded`."""


def dense(x: Any) -> Any:
    """The matrix (n, features) that the rows stand for."""
    return x.matrix() if isinstance(x, Coded) else x


def of_each(x: Table, function: Callable[[Any], Any]) -> Table:
    """The matrix with function(X), where the function leaves 0 and 1 as they are."""
    return Coded(function(x.numbers), x.codes, x.layout) if isinstance(x, Coded) else function(x)


def joined(tables: Sequence[Table]) -> Table:
    """The rows of all, one table after the other."""
    if not isinstance(tables[0], Coded):
        return np.concatenate(tables)
    parts = [one for one in tables if isinstance(one, Coded)]
    numbers = np.concatenate([one.numbers for one in parts])
    return Coded(numbers, np.concatenate([one.codes for one in parts]), tables[0].layout)


def values_of(x: Coded) -> list[Ints]:
    """The value of every row in each category, as many as its columns for the blank."""
    found: dict[int, Ints] = {}
    for j, categories in enumerate(x.layout.codes):
        left = x.codes[:, j].astype(np.int64)
        for category, radix in zip(categories[::-1], x.layout.radices(j)[::-1], strict=True):
            left, found[category] = np.divmod(left, radix)
    return [found[category] for category in range(len(x.layout.categories))]


def pulled(x: Table, g: Floats) -> Floats:
    """X' @ g for g (n, k)."""
    if not isinstance(x, Coded):
        return np.asarray(x.T @ g)
    sums = [_by_column(x.layout, j, each) for j, each in enumerate(_by_code(x, g))]
    return np.concatenate([x.numbers.T @ g, *sums])[x.layout.order]


def _by_code(x: Coded, g: Floats) -> Iterator[Floats]:
    """For each code, the rows of g added up by its values, (VALUES, k)."""
    for j in range(len(x.layout.codes)):
        values = x.codes[:, j].astype(np.intp)
        yield np.stack([_counted(values, column, VALUES) for column in g.T], axis=1)


def gram(x: Table, c: Floats) -> Floats:
    """Z' diag(c) Z for Z = (1, X), a column of ones before the others."""
    if not isinstance(x, Coded):
        z = np.hstack([np.ones((len(x), 1)), x])
        return np.asarray(z.T @ (c[:, None] * z))
    layout, own = x.layout, 1 + len(x.layout.numbers)
    weighted = np.empty((len(x), own), order="F")
    weighted[:, 0] = c
    np.multiply(c[:, None], x.numbers, out=weighted[:, 1:])
    # Ones and numbers first, then the columns of the codes one after the other.
    matrix = np.empty((1 + layout.width, 1 + layout.width))
    matrix[0, :own] = weighted.sum(axis=0)
    matrix[1:own, :own] = x.numbers.T @ weighted
    ends = np.cumsum([own, *(len(layout.columns(j)) for j in range(len(layout.codes)))])
    for j, sums in enumerate(_by_code(x, weighted)):
        mine = slice(ends[j], ends[j + 1])
        matrix[mine, :own] = _by_column(layout, j, sums)
        matrix[mine, mine] = _by_column(layout, j, sums[:, :1] * meaning(layout, j))
        first = x.codes[:, j].astype(np.intp) * VALUES
        for k in range(j):
            pairs = _counted(first + x.codes[:, k], c, VALUES**2).reshape(VALUES, VALUES)
            block = _by_column(layout, k, _by_column(layout, j, pairs).T)
            matrix[mine, ends[k] : ends[k + 1]] = block.T
    below = np.tri(len(matrix), k=-1, dtype=bool)
    matrix.T[below] = matrix[below]
    order = np.concatenate([[0], 1 + layout.order])
    return np.asarray(matrix[order][:, order])


def _by_column(layout: Layout, code: int, sums: Floats) -> Floats:
    """Sums by the values of a code, (VALUES, ...), added up by the columns that they stand for."""
    if len(layout.codes[code]) == 1:
        return sums[: layout.radices(code)[0] - 1]
    return np.asarray(meaning(layout, code).T @ sums)


def _counted(values: npt.NDArray[Any], weights: Floats, size: int) -> Floats:
    return np.bincount(values, weights=weights, minlength=size).astype(np.float64, copy=False)


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An empty array that JAX can take over without a copy."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + ALIGNED, np.uint8)
    start = -raw.ctypes.data % ALIGNED
    return raw[start : start + size].view(dtype).reshape(shape)
