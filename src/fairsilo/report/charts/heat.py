"""A table of numbers as colours: one map, or two side by side on the same scale."""

from collections.abc import Mapping, Sequence

from fairsilo.report.charts.frame import canvas, figure, mark, pct, text
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import number, shorten

CELL = 26
"""Pixels of a row."""
GAP = 0.05
"""Between two maps, as a share of the width."""


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    maps: Mapping[str, Sequence[float]],
    *,
    caption: Child = None,
) -> Html:
    """Maps by name, each row by row: one colour above zero, another below, pale near it."""
    most = max((abs(v) for values in maps.values() for v in values), default=0.0) or 1.0
    width = (1 - GAP * (len(maps) - 1)) / len(maps)
    height = CELL * len(rows)
    parts: list[Child] = [
        text(shorten(name, 16), "-8", CELL * j + CELL / 2 + 4, "end", "tick")
        for j, name in enumerate(rows)
    ]
    for k, (name, values) in enumerate(maps.items()):
        left = k * (width + GAP)
        parts.append(text(name, pct(left), -9, "start", "axis"))
        for end, anchor, x in ((columns[0], "start", left), (columns[-1], "end", left + width)):
            parts.append(text(shorten(end, 9), pct(x), height + 17, anchor, "tick"))
        for j, value in enumerate(values):
            row, column = divmod(j, len(columns))
            tip = f"{rows[row]} & {columns[column]}\n{name}: {number(value, signed=True)}"
            spot = el(
                "rect",
                x=pct(left + width * column / len(columns)),
                width=pct(width / len(columns)),
                y=CELL * row,
                height=CELL,
                class_=f"bar cell s{int(value < 0)}",
                fill_opacity=f"{0.06 + 0.9 * abs(value) / most:.3f}",
            )
            parts.append(mark(tip, spot, color=int(value < 0)))
    drawing = canvas(title, height, *parts, room="wide")
    every = [v for values in maps.values() for v in values]
    return figure(title, drawing, caption=caption, legend=_colours(every), kind="heat")


def _colours(values: Sequence[float]) -> Html:
    """What the two colours mean, and how far from zero they go."""
    ends = ((0, "above zero, up to", max(values)), (1, "below, down to", min(values)))
    keys: list[Child] = []
    for color, words, end in ends:
        if end and (end < 0) is bool(color):
            square = el("rect", class_="bar", width=14, height=14)
            sample = el("svg", square, width=14, height=14, aria_hidden="true")
            told = f"{words} {number(end, signed=True)}"
            keys.append(el("span", sample, told, class_=f"swatch s{color}"))
    return el("div", *keys, class_="legend")
