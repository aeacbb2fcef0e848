"""Charts as inline SVG: drawn in Python, readable without a script, as wide as their container.

    dots(title, [Dot(label, value, interval)])            estimates with whiskers
    lines(title, [Line(name, x, y, low, high)])           lines, bands, linear or logarithmic
    scatter(title, {name: [Point(x, y, label)]})          points by series
    ranked(title, [(label, value)])                       sorted columns, dozens
    histogram(title, values)                              hundreds

All return `Html` for a section; a small script adds tooltips, keys and legends that hide series.
"""

from fairsilo.report.charts.bars import histogram, ranked
from fairsilo.report.charts.dots import Dot, dots
from fairsilo.report.charts.lines import Line, lines
from fairsilo.report.charts.points import Point, scatter

__all__ = ["Dot", "Line", "Point", "dots", "histogram", "lines", "ranked", "scatter"]
