"""From an encoder's blocks straight to codes: the dense matrix is never there.

What is read from a table of 100 columns is a tenth as large as their matrix, and on its way to the
engine it exists once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import jnp
from fairsilo.sums.coded import WIDEST, Coded, Layout, shared

ALIGNED = 64
"""On a CPU, JAX does not copy an array that begins at a multiple of so many bytes."""
Block = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def collect(
    widths: Sequence[int], rows: int, blocks: Iterable[Block], dtype: npt.DTypeLike = np.float32
) -> Coded:
    """Rows as codes, from blocks of numbers (n, a) and of category values (n, b), -1 for none.

    `widths` says what the columns of the matrix are: 0 a number, else a category's width.
    """
    layout = layout_of(widths)
    pieces = _pieces(widths)
    numbers = aligned((rows, len(layout.numbers)), dtype)
    codes = aligned((rows, len(layout.codes)), np.uint8)
    at = 0
    for some, values in blocks:
        part = slice(at, at + len(some))
        numbers[part] = some
        for j, categories in enumerate(layout.codes):
            together = np.zeros(len(some), np.int64)
            for category, radix in zip(categories, layout.radices(j), strict=True):
                source, skipped = pieces[category]
                value = values[:, source] - skipped
                value[(value < 0) | (value >= radix)] = radix - 1
                together = together * radix + value
            codes[part, j] = together
        at += len(some)
    if at != rows:
        raise ValueError(f"the blocks have {at} rows instead of {rows}")
    # With their type named, JAX takes aligned arrays over as they lie.
    return Coded(jnp.asarray(numbers, numbers.dtype), jnp.asarray(codes, codes.dtype), layout)


def layout_of(widths: Sequence[int]) -> Layout:
    """Where numbers and categories lie; a category too wide for a byte becomes several."""
    starts = [0, *accumulate(width or 1 for width in widths)]
    numbers = tuple(start for start, width in zip(starts, widths, strict=False) if not width)
    categories = tuple(
        (start + skipped, min(WIDEST, width - skipped))
        for start, width in zip(starts, widths, strict=False)
        for skipped in range(0, width, WIDEST)
    )
    return Layout(numbers, categories, shared([width + 1 for _, width in categories]))


def _pieces(widths: Sequence[int]) -> list[tuple[int, int]]:
    """For every category of the layout, which of the encoder's it is and where it begins."""
    wide = [width for width in widths if width]
    return [(k, skipped) for k, width in enumerate(wide) for skipped in range(0, width, WIDEST)]


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An empty array that JAX can take over."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + ALIGNED, np.uint8)
    start = -raw.ctypes.data % ALIGNED
    return raw[start : start + size].view(dtype).reshape(shape)
