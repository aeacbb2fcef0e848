"""Lines over rounds or over epsilon, with bands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats
from fairsilo.report.charts.frame import (
    COLORS,
    across,
    canvas,
    figure,
    legend,
    mark,
    marker,
    stretched,
    x_axis,
    y_axis,
)
from fairsilo.report.charts.scale import Scale, Unit, fit
from fairsilo.report.html import Child, Html, data_block, el

POINTS = 1000
"""The most points of a line that are drawn."""
BUDGET = 2000
"""The most points of a chart that are drawn, over all lines."""


@dataclass(frozen=True)
class Line:
    """A named line, with an optional band from `low` to `high` around it."""

    name: str
    x: Sequence[float] | Floats
    y: Sequence[float | None] | Floats
    low: Sequence[float | None] | Floats | None = None
    high: Sequence[float | None] | Floats | None = None


def lines(
    title: str,
    series: Sequence[Line],
    *,
    x_title: str = "",
    unit: Unit = "number",
    log_x: bool = False,
    log_y: bool = False,
    band: tuple[float, float] | None = None,
    caption: Child = None,
    points: bool = False,
    height: int = 220,
    order: Sequence[str] = (),
) -> Html:
    """A chart of lines. `band` shades a constant range; `points` marks every point.

    A line named in `order` has the colour and dashes of its position there.
    """
    most = min(POINTS, BUDGET // max(len(series), 1))
    drawn = [_Drawn.of(line, most, log_x, log_y) for line in series]
    names = [line.name for line in series]
    style = {name: order.index(name) if name in order else k for k, name in enumerate(names)}
    x_scale = fit([v for one in drawn for v in one.x], log=log_x, tight=not log_x)
    seen = [v for one in drawn for part in (one.y, one.low, one.high) for v in part]
    y_scale = fit([*seen, *(band or ())], log=log_y, unit=unit)
    paths: list[Child] = []
    for one in drawn:
        paths.append(one.area(style[one.name], x_scale, y_scale, height))
        paths.append(one.path(style[one.name], x_scale, y_scale, height))
    marks = (
        [m for one in drawn for m in one.marks(style[one.name], x_scale, y_scale, height)]
        if points
        else []
    )
    whole = all(float(v).is_integer() for one in drawn for v in one.x)
    drawing = canvas(
        _spoken(title, series),
        height,
        _constant_band(band, y_scale, height),
        y_axis(y_scale, height),
        x_axis(x_scale, height, x_title, whole=whole and not log_x),
        stretched(height, *paths),
        *marks,
        el("line", y1=0, y2=height, class_="cursor"),
        focusable=not points,
    )
    data = {
        "x": [x_scale.low, x_scale.high, x_scale.log],
        "y": [y_scale.low, y_scale.high, y_scale.log],
        "h": height,
        "unit": unit,
        "label": x_title or "x",
        "series": [
            {"name": one.name, "k": style[one.name], "x": _brief(one.x), "y": _brief(one.y)}
            for one in drawn
        ],
    }
    return figure(
        title,
        drawing,
        caption=caption,
        legend=legend(style, "line"),
        kind="lines" if not points else "lines pointed",
        data=None if points else data_block(data),
    )


def thin(values: Floats, most: int = POINTS) -> npt.NDArray[np.int64]:
    """The points to draw: all if few, else the lowest and highest of every stretch.

    This keeps spikes. The first and the last point are always kept.
    """
    n = len(values)
    if n <= most:
        return np.arange(n)
    edges = np.linspace(0, n, max(most // 2 - 1, 1) + 1).astype(np.int64)
    keep = {0, n - 1}
    for start, stop in itertools.pairwise(edges):
        part = values[start:stop]
        if np.isfinite(part).any():
            keep |= {start + int(np.nanargmin(part)), start + int(np.nanargmax(part))}
    return np.array(sorted(keep), dtype=np.int64)


@dataclass(frozen=True)
class _Drawn:
    """The points of a line that are drawn; NaN is a gap."""

    name: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, line: Line, most: int, log_x: bool, log_y: bool) -> _Drawn:
        x = _clean(line.x, log_x)
        y, low, high = (_clean(v, log_y) for v in (line.y, line.low, line.high))
        keep = thin(y, most)
        keep = keep[np.isfinite(x[keep])]
        return cls(line.name, x[keep], y[keep], *(v[keep] if len(v) else v for v in (low, high)))

    def path(self, k: int, x: Scale, y: Scale, height: float) -> Html:
        d, pen = [], "M"
        for px, py in zip(self.x, self.y, strict=True):
            if math.isnan(py):
                pen = "M"
                continue
            d.append(f"{pen}{_point(px, py, x, y, height)}")
            pen = "L"
        # A single point is drawn as a dot: a line of length zero with round ends.
        if len(d) == 1:
            d.append("h0")
        style = f"line s{k % COLORS} d{k % COLORS}"
        return el("path", d="".join(d), class_=style, data_series=k)

    def area(self, k: int, x: Scale, y: Scale, height: float) -> Html | None:
        if not len(self.low) or not len(self.high):
            return None
        whole = np.isfinite(self.low) & np.isfinite(self.high)
        up = [_point(*p, x, y, height) for p in zip(self.x[whole], self.high[whole], strict=True)]
        down = [_point(*p, x, y, height) for p in zip(self.x[whole], self.low[whole], strict=True)]
        outline = "L".join([*up, *reversed(down)])
        return el("path", d=f"M{outline}Z", class_=f"area s{k % COLORS}", data_series=k)

    def marks(self, k: int, x: Scale, y: Scale, height: float) -> list[Html]:
        return [
            mark(
                f"{self.name}\n{px:g}: {py:.4g}",
                marker(x.at(px), height * (1 - y.at(py)), k),
                color=k,
                series=k,
            )
            for px, py in zip(self.x, self.y, strict=True)
            if math.isfinite(py)
        ]


def _constant_band(band: tuple[float, float] | None, y: Scale, height: float) -> Html | None:
    if band is None:
        return None
    bottom, top = (height * (1 - min(max(y.at(v), 0.0), 1.0)) for v in band)
    shape = {"y": f"{top:.1f}", "height": f"{max(bottom - top, 1):.1f}"}
    edges = [across(y, "level") for y in (bottom, top)]
    return el("g", el("rect", x=0, width="100%", class_="band", **shape), *edges)


def _clean(values: Sequence[float | None] | Floats | None, log: bool) -> Floats:
    """The values as floats; those that cannot be drawn are NaN."""
    if values is None:
        return np.empty(0)
    array = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    if log:
        array[array <= 0] = np.nan
    return array


def _point(px: float, py: float, x: Scale, y: Scale, height: float) -> str:
    return f"{1000 * x.at(px):.1f} {height * (1 - y.at(py)):.1f}"


def _brief(values: Floats) -> list[float | int | None]:
    """Numbers for JSON, rounded to the digits that a tooltip shows."""
    return [
        None if math.isnan(value) else float(f"{value:.5g}") if value % 1 else int(value)
        for value in values
    ]


def _spoken(title: str, series: Sequence[Line]) -> str:
    """The text for screen readers: where each line ends."""
    ends = []
    for line in series[:4]:
        y = _clean(line.y, False)
        y = y[np.isfinite(y)]
        if len(y):
            ends.append(f"{line.name} from {y[0]:.4g} to {y[-1]:.4g}")
    return f"{title}: {'; '.join(ends)}" if ends else title
