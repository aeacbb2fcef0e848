"""A curve of steps with a band and a second curve beside it. Every step is as wide as another."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fairsilo.report.charts.frame import (
    canvas,
    figure,
    legend,
    mark,
    pct,
    stretched,
    text,
    y_axis,
)
from fairsilo.report.charts.scale import Scale, fit
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import number, rounded

HEIGHT = 200
TICKS = 5
REACH = 2.0
"""A band is drawn as far as so many times the largest height, or its own median."""


@dataclass(frozen=True)
class Stair:
    """A curve: its height on every step, and its band."""

    name: str
    heights: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


def steps(
    title: str,
    labels: Sequence[str],
    edges: Sequence[float],
    curves: Sequence[Stair],
    *,
    caption: Child = None,
) -> Html:
    """Stairs over the same steps; `edges` lie between the first of them, others stand apart."""
    ends = [v for one in curves for v in (*one.low, *one.high)]
    usual = median([abs(v) for v in ends] or [0.0])
    most = REACH * max(usual, *(abs(v) for one in curves for v in one.heights))
    clipped = [min(max(v, -most), most) for v in ends]
    scale = fit([0.0, *clipped, *(v for one in curves for v in one.heights)])
    count, along = len(labels), len(edges) + 1
    paths: list[Child] = []
    for k, one in reversed(list(enumerate(curves))):
        if len(one.low):
            outline = _outline(one, count, scale, most)
            paths.append(el("path", d=outline, class_=f"area s{k}", data_series=k))
        path = _stair(one.heights, along, count, scale)
        paths.append(el("path", d=path, class_=f"line s{k} d{k}", data_series=k))
    slots = [
        mark(_tip(labels[j], curves, j), el("rect", x=pct(j / count), width=pct(1 / count), y=0,
             height=HEIGHT, class_="hit"))
        for j in range(count)
    ]  # fmt: skip
    drawing = canvas(
        title, HEIGHT, y_axis(scale, HEIGHT), _x_axis(edges, labels), stretched(HEIGHT, *paths),
        *slots, room="short",
    )  # fmt: skip
    keys = legend({one.name: k for k, one in enumerate(curves)}, "line")
    return figure(title, drawing, caption=caption, legend=keys, kind="steps")


def _tip(label: str, curves: Sequence[Stair], j: int) -> str:
    lines = [label]
    for one in curves:
        lines.append(f"{one.name}: {number(one.heights[j], signed=True)}")
        if len(one.low):
            low, high = (number(v[j], signed=True) for v in (one.low, one.high))
            lines.append(f"95% band {low} to {high}")
    return "\n".join(lines)


def _y(value: float, scale: Scale) -> str:
    return f"{HEIGHT * (1 - scale.at(value)):.1f}"


def _stair(heights: Sequence[float], along: int, count: int, scale: Scale) -> str:
    """Joined along the number; what stands apart, such as missing cells, is a line of its own."""
    path = ""
    for j, height in enumerate(heights):
        y = _y(height, scale)
        left, right = (f"{1000 * x / count:.1f}" for x in (j, j + 1))
        path += (f"M{left} {y}" if j in (0, along) else f"V{y}") + f"H{right}"
    return path


def _outline(one: Stair, count: int, scale: Scale, most: float) -> str:
    """The band, step by step."""
    path = ""
    for j, (low, high) in enumerate(zip(one.low, one.high, strict=True)):
        top, bottom = (_y(min(max(v, -most), most), scale) for v in (high, low))
        left, right = (f"{1000 * x / count:.1f}" for x in (j, j + 1))
        path += f"M{left} {top}H{right}V{bottom}H{left}Z"
    return path


def _x_axis(edges: Sequence[float], labels: Sequence[str]) -> Html:
    """The values at some of the edges, and the names of the steps that stand apart."""
    count, along = len(labels), len(edges) + 1
    by = max(1, -(-len(edges) // TICKS))
    # A name at the right end has a tick's place.
    room = len(edges) - by * (count > along)
    parts = [
        text(rounded(f"{edges[j]:.10g}"), pct((j + 1) / count), HEIGHT + 17, "middle", "tick")
        for j in range(by // 2, room, by)
    ]
    for j in range(along, count):
        parts.append(text(labels[j].strip("()"), "100%", HEIGHT + 17, "end", "tick"))
    return el("g", *parts, aria_hidden="true")
