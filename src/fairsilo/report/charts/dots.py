"""Estimates with confidence intervals as whiskers, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairsilo.evaluate.intervals import Interval
from fairsilo.report.charts.frame import (
    canvas,
    figure,
    legend,
    mark,
    marker,
    pct,
    text,
    upright,
    x_axis,
)
from fairsilo.report.charts.scale import Scale, Unit, fit
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import DASH, interval, number, percent, shorten

ROW = 46
"""Pixels per row: a line of text, and the whisker below it."""


@dataclass(frozen=True)
class Dot:
    """A value with a confidence interval (thick) and a more conservative, wider one (thin)."""

    label: str
    value: float | None
    interval: Interval | None = None
    outer: Interval | None = None
    note: str = ""
    """Extra text of the tooltip, such as the number of rows."""
    short: str = ""
    """The label for narrow screens; made from the label if not given."""
    beside: float | None = None
    """A second value, which the interval is then about."""


def dots(
    title: str,
    rows: Sequence[Dot],
    *,
    unit: Unit = "number",
    signed: bool = False,
    band: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    caption: Child = None,
    names: tuple[str, str] | None = None,
) -> Html:
    """Rows of dots with whiskers. `band` is shaded (an allowed range); `signed` draws zero.

    `names` are those of a row's value and of the value `beside` it.
    """
    reach = [v for row in rows for v in _values(row)]
    scale = fit([*reach, *(band or ()), *((0.0,) if signed else ())], unit=unit, limits=limits)
    height = ROW * len(rows)
    back: list[Child] = []
    if band:
        left, right = (min(max(scale.at(v), 0.0), 1.0) for v in band)
        back.append(
            el("rect", x=pct(left), width=pct(right - left), y=0, height=height, class_="band")
        )
        back += [upright(at, height, "level") for at in (left, right)]
    back.append(x_axis(scale, height, lines=True))
    if signed:
        back.append(upright(scale.at(0.0), height, "rule zero"))
    other = "" if names is None else names[1]
    front = [_row(row, k * ROW, scale, unit, signed, other) for k, row in enumerate(rows)]
    drawing = canvas(title, height, *back, *front, room="flush")
    keys = None if names is None else legend(dict(zip(names, (0, 1), strict=True)), "point")
    return figure(title, drawing, caption=caption, legend=keys, kind="dots")


def _values(row: Dot) -> list[float]:
    spans = [span for span in (row.interval, row.outer) if span]
    ends = [end for span in spans for end in (span.low, span.high)]
    return [*(v for v in (row.value, row.beside) if v is not None), *ends]


def _row(row: Dot, top: float, scale: Scale, unit: Unit, signed: bool, other: str) -> Html:
    rate = unit == "percent"
    show = percent if rate else number
    if row.value is None:
        tip, shown = f"{row.label}: undefined. {row.note}", DASH
    else:
        shown = show(row.value, signed=signed)
        tip = f"{row.label}: {shown}"
        if row.beside is not None:
            tip += f"\n{other} {show(row.beside, signed=signed)}"
        if row.interval:
            tip += f"\n95% interval {interval(row.interval, rate=rate, signed=signed)}"
        if row.outer:
            tip += f"\nChebyshev {interval(row.outer, rate=rate, signed=signed)}"
        tip += f"\n{row.note}" if row.note else ""
    middle = top + 31
    shapes: list[Child] = [
        el("rect", x=0, y=top, width="100%", height=ROW, class_="hit"),
        text(row.short or shorten(row.label), "0", top + 16),
        text(shown, "100%", top + 16, "end", "label value"),
    ]
    own: list[Child] = []
    for span, style, tall in ((row.outer, "outer", 5), (row.interval, "whisker", 7)):
        if span is None:
            continue
        low, high = pct(scale.at(span.low)), pct(scale.at(span.high))
        own.append(el("line", x1=low, x2=high, y1=middle, y2=middle, class_=style))
        own += [
            el("line", x1=end, x2=end, y1=middle - tall, y2=middle + tall, class_=style)
            for end in (low, high)
        ]
    if row.beside is not None:
        own.append(marker(scale.at(row.beside), middle, 1))
        shapes.append(el("g", *own, class_="s1", data_series=1))
    else:
        shapes += own
    if row.value is not None:
        shapes.append(el("g", marker(scale.at(row.value), middle), data_series=0))
    return mark(tip, *shapes)
