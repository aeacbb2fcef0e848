"""Parts common to all charts: the figure, its grid and axes, its legend, its marks.

Charts are inline SVG that needs no script to be seen or printed. The horizontal coordinate is a
percentage and the vertical one is in pixels, so that a chart fills any width and its text keeps
its size. Only paths, which do not allow percentages, are in a stretched inner drawing.
"""

from collections.abc import Mapping

from fairsilo.report.charts.scale import Scale
from fairsilo.report.html import Child, Html, el

COLORS = 9
"""How many colours and marker shapes there are; further series repeat them."""
SHAPES = (
    "M0 -5A5 5 0 1 1 0 5A5 5 0 1 1 0 -5Z",
    "M-4.5 -4.5H4.5V4.5H-4.5Z",
    "M0 -5.8L5.4 4.2H-5.4Z",
    "M0 -6.2L5.4 0L0 6.2L-5.4 0Z",
    "M0 5.8L5.4 -4.2H-5.4Z",
    "M-6 -1.8H-1.8V-6H1.8V-1.8H6V1.8H1.8V6H-1.8V1.8H-6Z",
    "M-5.4 -3L-3 -5.4L0 -2.4L3 -5.4L5.4 -3L2.4 0L5.4 3L3 5.4L0 2.4L-3 5.4L-5.4 3L-2.4 0Z",
    "M0 -6L1.8 -1.9L5.7 -1.9L2.6 0.9L3.7 5L0 2.6L-3.7 5L-2.6 0.9L-5.7 -1.9L-1.8 -1.9Z",
    "M-3.4 -5.2H3.4L5.8 0L3.4 5.2H-3.4L-5.8 0Z",
)


def pct(share: float) -> str:
    """A share of the width as a coordinate."""
    return f"{100 * share:.5g}%"


def figure(
    title: str,
    drawing: Html,
    *,
    caption: Child = None,
    legend: Child = None,
    kind: str = "",
    data: Child = None,
) -> Html:
    """A titled figure around a drawing."""
    return el(
        "figure",
        el(
            "figcaption",
            el("strong", title),
            el("span", caption) if caption is not None else None,
        ),
        legend,
        drawing,
        data,
        class_=f"chart {kind}".strip(),
    )


def canvas(
    label: str, height: float, *parts: Child, focusable: bool = False, room: str = ""
) -> Html:
    """The SVG element; `room` is a style-sheet class for the margins."""
    return el(
        "div",
        el(
            "svg",
            el("title", label) if focusable else None,
            *parts,
            role="img" if focusable else "group",
            aria_label=label,
            tabindex=0 if focusable else None,
            width="100%",
            height=f"{height:g}",
        ),
        class_=f"plot {room}".strip(),
    )


def stretched(height: float, *parts: Child) -> Html:
    """Inner drawing for paths, 1000 units wide at any width on screen."""
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 1000 {height:g}",
        preserveAspectRatio="none",
        width="100%",
        height=f"{height:g}",
        aria_hidden="true",
    )


def x_axis(
    scale: Scale, height: float, title: str = "", *, lines: bool = False, whole: bool = False
) -> Html:
    """Tick labels below the drawing, and the axis title at their right."""
    # Long labels: fewer ticks, so that they fit on a phone.
    most = 5 if max(len(scale.label(t, 5)) for t in scale.ticks(5)) <= 5 else 3
    parts: list[Child] = []
    for tick in scale.ticks(most):
        if whole and tick != round(tick):
            continue
        at = scale.at(tick)
        anchor = "start" if at < 0.04 else "end" if at > 0.96 else "middle"
        if lines:
            parts.append(upright(at, height, "rule"))
        label = f"{tick:,.0f}" if whole else scale.label(tick, most)
        parts.append(text(label, pct(at), height + 17, anchor, "tick"))
    if title:
        parts.append(text(title, "100%", height + 35, "end", "axis"))
    return el("g", *parts, aria_hidden="true")


def y_axis(scale: Scale, height: float, title: str = "") -> Html:
    """Horizontal rules with labels at the left, and the axis title above them."""
    parts: list[Child] = []
    for tick in scale.ticks(5):
        y = height * (1 - scale.at(tick))
        parts.append(across(y, "rule zero" if tick == 0 else "rule"))
        parts.append(text(scale.label(tick, 5), "-8", y + 4, "end", "tick"))
    if title:
        parts.append(text(title, "0", -10, "start", "axis"))
    return el("g", *parts, aria_hidden="true")


def mark(
    tip: str,
    *shapes: Child,
    color: int = 0,
    series: int | None = None,
    strong: bool = False,
) -> Html:
    """Shapes with a tooltip; `tip` is its text and what a screen reader says."""
    return el(
        "g",
        el("title", tip),
        *shapes,
        class_=f"mark s{color % COLORS}{' strong' * strong}",
        role="img",
        aria_label=tip.replace("\n", "; "),
        data_series=series,
    )


def marker(x: float, y: float, shape: int = 0) -> Html:
    """A marker at a share of the width and a height in pixels."""
    path = el("path", d=SHAPES[shape % len(SHAPES)])
    return el("svg", path, x=pct(x), y=f"{y:.1f}", width=1, height=1)


def legend(style: Mapping[str, int], kind: str) -> Html | None:
    """Buttons that show and hide series, by their style; none for a single series."""
    if len(style) < 2:
        return None
    keys = []
    for name, k in style.items():
        if kind == "line":
            sample = el("path", d="M1 7H21", class_=f"line d{k % COLORS}")
        else:
            sample = el("path", d=SHAPES[k % COLORS], transform="translate(11 7)")
        picture = el("svg", sample, width=22, height=14, aria_hidden="true")
        keys.append(
            el(
                "button",
                picture,
                name,
                type="button",
                class_=f"key s{k % COLORS}",
                aria_pressed="true",
                data_series=k,
            )
        )
    return el("div", *keys, class_="legend")


def text(content: str, x: str, y: float, anchor: str = "start", class_: str = "label") -> Html:
    """A line of text."""
    return el("text", content, x=x, y=f"{y:.1f}", text_anchor=anchor, class_=class_)


def upright(x: float, height: float, class_: str) -> Html:
    """A line from top to bottom, at a share of the width."""
    return el("line", x1=pct(x), x2=pct(x), y1=0, y2=f"{height:g}", class_=class_)


def across(y: float, class_: str) -> Html:
    """A line from left to right, at a height in pixels."""
    return el("line", x1=0, x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_=class_)
