"""Many values of one kind: sorted columns for dozens, a histogram for hundreds."""

import math
from collections.abc import Sequence

import numpy as np

from fairsilo.report.charts.frame import (
    across,
    canvas,
    figure,
    mark,
    marker,
    pct,
    text,
    upright,
    x_axis,
    y_axis,
)
from fairsilo.report.charts.scale import Unit, fit
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import number, percent, plural

BINS = 24
HEIGHT = 220


def ranked(
    title: str,
    values: Sequence[tuple[str, float]],
    *,
    unit: Unit = "number",
    reference: tuple[float, str] | None = None,
    caption: Child = None,
    zero: bool = False,
) -> Html:
    """Values sorted from low to high, one column each.

    `reference` is a dotted line with a name. The caption should say the name, since low values
    take the place of a label.
    """
    ordered = sorted(values, key=lambda pair: pair[1])
    marks_at = [value for _, value in ordered]
    extra = [reference[0]] if reference else []
    scale = fit([*marks_at, *extra, *([0.0] if zero else [])], unit=unit)
    show = percent if unit == "percent" else number
    parts: list[Child] = [y_axis(scale, HEIGHT)]
    if reference:
        level = across(HEIGHT * (1 - scale.at(reference[0])), "level")
        parts.append(el("g", level, el("title", reference[1])))
    for k, (name, value) in enumerate(ordered):
        at, y = (k + 0.5) / len(ordered), HEIGHT * (1 - scale.at(value))
        strip = el(
            "rect",
            x=pct(k / len(ordered)),
            width=pct(1 / len(ordered)),
            y=0,
            height=HEIGHT,
            class_="hit",
        )
        stalk = el("line", x1=pct(at), x2=pct(at), y1=f"{y:.1f}", y2=HEIGHT, class_="stalk")
        parts.append(mark(f"{name}: {show(value)}", strip, stalk, marker(at, y)))
    return figure(title, canvas(title, HEIGHT, *parts, room="bare"), caption=caption, kind="ranked")


def histogram(
    title: str,
    values: Sequence[float],
    *,
    unit: Unit = "number",
    reference: tuple[float, str] | None = None,
    caption: Child = None,
) -> Html:
    """A histogram of one value per client; `reference` is a vertical line with a name."""
    scale = fit([*values, *([reference[0]] if reference else [])], unit=unit)
    counts, edges = np.histogram(values, bins=BINS, range=(scale.low, scale.high))
    y_scale = fit([0.0, float(max(counts, default=1))])
    show = percent if unit == "percent" else number
    parts: list[Child] = [y_axis(y_scale, HEIGHT, "clients")]
    for k, amount in enumerate(counts):
        y = HEIGHT * (1 - y_scale.at(float(amount)))
        spot = {"x": pct(k / BINS + 0.001), "width": pct(1 / BINS - 0.002)}
        bar = el("rect", **spot, y=f"{y:.1f}", height=f"{HEIGHT - y:.1f}", class_="bar")
        strip = el("rect", **spot, y=0, height=HEIGHT, class_="hit")
        span = f"{show(float(edges[k]))} to {show(float(edges[k + 1]))}"
        parts.append(mark(f"{plural(int(amount), 'client')} at {span}", strip, bar))
    if reference:
        at = scale.at(reference[0])
        anchor = "end" if at > 0.6 else "start"
        parts.append(upright(at, HEIGHT, "level"))
        shift = at + math.copysign(0.01, 0.6 - at)
        parts.append(text(reference[1], pct(shift), 12, anchor, "tick"))
    parts.append(x_axis(scale, HEIGHT))
    drawing = canvas(title, HEIGHT, *parts, room="short")
    return figure(title, drawing, caption=caption, kind="histogram")
