"""Charts as inline SVG: drawn in Python, readable without a script, as wide as their container.

    dots(title, [Dot(label, value, interval)])            estimates with whiskers
    lines(title, [Line(name, x, y, low, high)])           lines, bands, linear or logarithmic
    scatter(title, {name: [Point(x, y, label)]})          points by series
    ranked(title, [(label, value)])                       sorted columns, dozens
    histogram(title, values)                              hundreds
    steps(title, labels, edges, [Stair(name, heights)])   curves of steps, with bands
    heat(title, rows, columns, {name: values})            tables of numbers as colours

All return `Html` for a section; a small script adds tooltips, keys and legends that hide series.
"""

from fairsilo.report.charts.bars import histogram, ranked
from fairsilo.report.charts.dots import Dot, dots
from fairsilo.report.charts.heat import heat
from fairsilo.report.charts.lines import Line, lines
from fairsilo.report.charts.points import Point, scatter
from fairsilo.report.charts.steps import Stair, steps

__all__ = [
    "Dot",
    "Line",
    "Point",
    "Stair",
    "dots",
    "heat",
    "histogram",
    "lines",
    "ranked",
    "scatter",
    "steps",
]
