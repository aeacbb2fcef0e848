"""What a sum is judged by: earlier answers of the same silos, and what mathematics bounds.

A silo that lies within these bounds is not noticed (docs/poisoning.md says how far it gets).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairsilo.arrays import Floats, Ints

if TYPE_CHECKING:
    from fairsilo.evaluate.tally import Tally

ROUNDING = 1e-6
"""How far sums are off from rounding alone."""
SURE = 9.0
"""Deviations of noise beyond which a sum cannot be noise: a normal number is there with chance
2e-19, so that a run that opens a million numbers is stopped wrongly with chance below 1e-12."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of those who answer; None where nothing is."""

    rows: float | None = None
    """Their training rows, as they counted them before; where rows have weights, their sum."""
    cells: Ints | Floats | None = None
    """Their training rows by (group, class), small cells left out; with noise in a private run."""
    encoded: float | None = None
    """The rows that the encoder was fitted to, those of silos that were lost since included."""
    silos: int | None = None
    """How many answer."""
    alone: bool = False
    """Whether this is one silo's own answer and not the sum of all."""
    deviation: Callable[[float, float], float] | None = None
    """In a private run the deviation of noise, by reach of a row and multiplier."""

    def noise(self, reach: float, multiplier: float) -> float:
        """What noise alone explains; without differential privacy nothing."""
        return SURE * self.deviation(reach, multiplier) if self.deviation is not None else 0.0


NOTHING = Known()


def room(rows: float, weighted: bool) -> float:
    """How far a count may be off: a sum of weights, which may all be small, by rounding alone."""
    return ROUNDING * (1 + abs(rows)) if weighted else 0.5


def negative_counts(counts: Floats, weighted: bool = False) -> str:
    """Whether a count, or a sum of weights, is negative; the first one is that of all rows."""
    return "a count is negative" if (counts < -room(counts[0], weighted)).any() else ""


def whole_counts(counts: Floats) -> str:
    """Whether counts are whole numbers and not negative."""
    negative = negative_counts(counts)
    if negative:
        return negative
    if (np.abs(counts - np.rint(counts)) > 1e-3).any():
        return "a count is no whole number"
    return ""


def other_rows(rows: float, known: Known, weighted: bool = False) -> str:
    """Whether there are as many rows as before, or rows of the same weight."""
    if known.rows is None or abs(rows - known.rows) < room(known.rows, weighted):
        return ""
    return f"there are {rows:.10g} training rows, and before there were {known.rows:.10g}"


def squares_too_small(count: Floats, total: Floats, squares: Floats) -> str:
    """Whether (sum x)^2 <= n sum x^2 fails, which holds for any n numbers."""
    room = ROUNDING * (1 + np.abs(squares) * np.maximum(count, 1))
    if (squares < -ROUNDING).any() or (total**2 > count * squares + room).any():
        return "a sum of squares is less than the sum allows"
    return ""


def wrong_tally(tally: Tally, classes: int, plain: bool) -> str:
    """What contradicts itself in counts and losses of cells; `plain`: labels are most probable.

    A row that is predicted wrongly has a probability of at most 1/2 for its class.
    """
    if (tally.counts < 0).any() or (tally.losses < -ROUNDING).any():
        return "a count of rows or a sum of losses is negative"
    cells = tally.cells.astype(np.float64)
    found = squares_too_small(cells, tally.losses, tally.squares)
    if found:
        return found
    if (tally.losses[tally.cells == 0] > ROUNDING).any():
        return "a cell without rows has losses"
    least = (cells - tally.right) * np.log(2)
    if plain and (tally.losses < least * (1 - ROUNDING) - ROUNDING).any():
        return "losses are smaller than the rows predicted wrongly allow"
    return ""
