"""Axes: map values to positions from 0 to 1, choose ticks and write their labels."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fairsilo.report.text import MINUS, size, superscript

Unit = Literal["number", "percent", "bytes"]


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis from low to high."""

    low: float
    high: float
    log: bool = False
    unit: Unit = "number"

    def at(self, value: float) -> float:
        """The position of the value on the axis, from 0 to 1."""
        low, high, x = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return (x - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values on the axis."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            by = max(1, math.ceil((last - first) / most))
            return [10.0**k for k in range(first, last + 1, by)]
        step = _round_step((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, _decimals(step) + 2) for k in range(first, last + 1)]

    def label(self, value: float, most: int = 6) -> str:
        """A tick's text, with as many decimals as are needed to tell the ticks apart."""
        if self.log:
            return f"10{superscript(round(math.log10(value)))}"
        if self.unit == "bytes":
            return "0" if not value else size(value)
        step, amount = _round_step((self.high - self.low) / most), abs(value)
        sign = MINUS if value < -step / 2 else ""
        if self.unit == "percent":
            step, amount = 100 * step, 100 * amount
        digits = _decimals(step)
        if digits > 5 and self.unit == "number":
            mantissa = f"{amount * 10.0**digits:.0f}"
            return (
                sign
                + mantissa
                + (f"\N{MULTIPLICATION SIGN}10{superscript(-digits)}" if mantissa != "0" else "")
            )
        return f"{sign}{amount:,.{digits}f}" + ("%" if self.unit == "percent" else "")


def fit(
    values: Iterable[float | None],
    *,
    log: bool = False,
    unit: Unit = "number",
    tight: bool = False,
    limits: tuple[float, float] | None = None,
) -> Scale:
    """A scale that holds all values; its ends are round unless `tight`.

    Values that are missing, not finite, or not positive on a logarithmic axis are ignored.
    `limits` are the outermost ends of the axis, such as 0 and 1 for rates.
    """
    kept = [v for v in values if v is not None and math.isfinite(v) and (v > 0 or not log)]
    low, high = (min(kept), max(kept)) if kept else ((0.1, 1.0) if log else (0.0, 1.0))
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Scale(low, high if high > low else 10 * low, log=True, unit=unit)
    # Values that differ by rounding errors count as one value, and tiny values as zero.
    largest = max(abs(low), abs(high))
    if high - low <= 1e-12 * max(largest, 1.0):
        reach = 0.5 * largest if largest > 1e-9 else 1.0
        low, high = low - reach, high + reach
    if not tight:
        step = _round_step((high - low) / 5)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if limits:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Scale(low, high, unit=unit)


def _decimals(step: float) -> int:
    """The number of decimals that tells multiples of a step apart."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(float(f * power) for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
