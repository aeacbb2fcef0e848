"""A scatter of points in named series, such as accuracy against fairness."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from fairsilo.report.charts.frame import canvas, figure, legend, mark, marker, x_axis, y_axis
from fairsilo.report.charts.scale import fit
from fairsilo.report.html import Child, Html

HEIGHT = 320


class Point(NamedTuple):
    """A point and the text of its tooltip."""

    x: float | None
    y: float | None
    label: str = ""


def scatter(
    title: str,
    series: Mapping[str, Sequence[Point | tuple[float | None, float | None, str]]],
    *,
    x_title: str = "",
    y_title: str = "",
    caption: Child = None,
    order: Sequence[str] = (),
    strong: str | None = None,
) -> Html:
    """Points by series, each with its colour and shape. Undefined points are left out.

    A series named in `order` has the colour and shape of its position there; the `strong` one is
    larger and drawn on top.
    """
    kept = {
        name: [
            (float(x), float(y), label)
            for x, y, label in points
            if x is not None and y is not None and isfinite(x) and isfinite(y)
        ]
        for name, points in series.items()
    }
    every = [point for points in kept.values() for point in points]
    x_scale = fit([x for x, _, _ in every])
    y_scale = fit([y for _, y, _ in every])
    names = (x_title or "x", y_title or "y")
    style = {name: order.index(name) if name in order else k for k, name in enumerate(kept)}
    marks = [
        mark(
            _tip(name, label, names, (x, y)),
            marker(x_scale.at(x), HEIGHT * (1 - y_scale.at(y)), style[name]),
            color=style[name],
            series=style[name],
            strong=name == strong,
        )
        for name in sorted(kept, key=lambda name: name == strong)
        for x, y, label in kept[name]
    ]
    axes = (
        y_axis(y_scale, HEIGHT, y_title),
        x_axis(x_scale, HEIGHT, x_title, lines=True),
    )
    return figure(
        title,
        canvas(title, HEIGHT, *axes, *marks),
        caption=caption,
        legend=legend(style, "point"),
        kind="scatter",
    )


def _tip(name: str, label: str, axes: tuple[str, str], at: tuple[float, float]) -> str:
    head = f"{name}: {label}" if label else name
    return "\n".join([head, *(f"{a} {v:.4g}" for a, v in zip(axes, at, strict=True))])
