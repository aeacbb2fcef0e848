"""Charts: scales, thinning, and the positions of marks."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.evaluate.intervals import Interval
from fairsilo.report.charts import Dot, Line, Point, dots, heat, histogram, lines, ranked, scatter
from fairsilo.report.charts.lines import BUDGET, POINTS, thin
from fairsilo.report.charts.scale import Scale, fit
from fairsilo.report.html import Html

finite = st.floats(-1e9, 1e9, allow_nan=False, allow_subnormal=False)


def parse(chart: Html) -> ElementTree.Element:
    """Parse a chart, which is well-formed XML except for boolean attributes."""
    return ElementTree.fromstring(chart)


def paths(chart: Html) -> list[list[tuple[float, float]]]:
    """The points of every line that is drawn."""
    drawn = []
    for path in parse(chart).iter("path"):
        if "line" in path.attrib.get("class", "").split() and "data-series" in path.attrib:
            numbers = re.findall(r"[ML](\S+) (\S+?)(?=[MLh]|$)", path.attrib["d"])
            drawn.append([(float(x), float(y)) for x, y in numbers])
    return drawn


@given(st.lists(finite, min_size=1))
def test_a_scale_holds_its_values_and_has_distinct_labels(values: list[float]) -> None:
    scale = fit(values)
    assert all(-1e-9 <= scale.at(v) <= 1 + 1e-9 for v in values)
    ticks = scale.ticks(5)
    assert 2 <= len(ticks) <= 8
    labels = [scale.label(tick, 5) for tick in ticks]
    assert len(set(labels)) == len(labels)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1))
def test_a_logarithmic_scale_holds_its_values(values: list[float]) -> None:
    scale = fit([*values, 0.0, -1.0, math.nan, None], log=True)
    assert all(-1e-9 <= scale.at(v) <= 1 + 1e-9 for v in values)
    assert 1 <= len(scale.ticks(5)) <= 8


def test_ticks_and_labels_by_hand() -> None:
    assert [Scale(0, 1).label(t) for t in Scale(0, 1).ticks(5)] == [
        *("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"),
    ]
    assert Scale(0, 1, unit="percent").label(0.2) == "20%"
    assert Scale(-0.2, 0.3, unit="percent").label(-0.1) == "\u221210%"
    assert Scale(-0.1, 0.1).label(-0.05) == "\u22120.05"
    assert [Scale(0, 5e-7).label(t, 5) for t in Scale(0, 5e-7).ticks(5)][:2] == [
        *("0", "1\u00d710\u207b\u2077"),
    ]
    assert Scale(1, 20_000).label(5000) == "5,000"
    assert Scale(1e-8, 1, log=True).label(1e-6) == "10\u207b\u2076"
    assert Scale(0, 2e7, unit="bytes").label(5e6) == "5 MB"


@pytest.mark.slow
@given(st.integers(1, 30_000), st.integers(0, 10))
def test_thinning_keeps_ends_and_extremes(n: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    kept = thin(values)
    assert len(kept) <= POINTS
    assert kept[0] == 0
    assert kept[-1] == n - 1
    assert (np.diff(kept) > 0).all()
    assert values[kept].max() == values.max()
    assert values[kept].min() == values.min()


def test_line_goes_through_its_points() -> None:
    [points] = paths(lines("t", [Line("a", [1, 2, 3], [0.0, 1.0, 0.5])], height=200))
    assert points == [(0, 200), (500, 0), (1000, 100)]


def test_gaps_are_gaps() -> None:
    chart = lines("t", [Line("a", [1, 2, 3, 4], [1.0, None, math.inf, 2.0])])
    [path] = [p.attrib["d"] for p in parse(chart).iter("path")]
    assert path.count("M") == 2
    assert "nan" not in chart
    assert "NaN" not in chart


@pytest.mark.parametrize("rounds", [0, 1, 2, 20_000])
@pytest.mark.parametrize("series", [1, 6])
def test_lines_of_any_length(rounds: int, series: int) -> None:
    x = np.arange(1.0, rounds + 1)
    rng = np.random.default_rng(0)
    chart = lines("t", [Line(str(k), x, rng.normal(size=rounds)) for k in range(series)])
    drawn = paths(chart)
    assert len(drawn) == series
    assert sum(map(len, drawn)) <= BUDGET
    assert len(chart) < 80_000


def test_logarithmic_line_leaves_out_what_has_no_logarithm() -> None:
    [points] = paths(lines("t", [Line("a", [1, 2, 3], [1.0, 0.0, 0.01])], log_y=True, height=100))
    assert points == [(0, 0), (1000, 100)]


def test_bands_are_where_they_should_be() -> None:
    chart = lines("t", [Line("a", [0, 1], [-1.0, 1.0])], band=(-0.5, 0.5), height=100)
    [band] = [r for r in parse(chart).iter("rect") if r.attrib["class"] == "band"]
    assert (float(band.attrib["y"]), float(band.attrib["height"])) == (25, 50)
    around = lines("t", [Line("a", [0, 1], [0.0, 0.0], [-1.0, -1.0], [1.0, 1.0])], height=100)
    [area] = [p for p in parse(around).iter("path") if "area" in p.attrib["class"]]
    assert area.attrib["d"] == "M0.0 0.0L1000.0 0.0L1000.0 100.0L0.0 100.0Z"


def test_dots_say_value_and_interval() -> None:
    rows = [
        Dot("a", 0.5, Interval(0.4, 0.6), Interval(0.2, 0.8), note="7 rows"),
        Dot("b", None, note="no rows"),
    ]
    spoken = [
        g.attrib["aria-label"]
        for g in parse(dots("t", rows, unit="percent")).iter("g")
        if g.attrib.get("class", "").startswith("mark")
    ]
    assert spoken == [
        "a: 50.0%; 95% interval 40.0% to 60.0%; Chebyshev 20.0% to 80.0%; 7 rows",
        "b: undefined. no rows",
    ]


def test_scatter_leaves_out_what_is_undefined() -> None:
    chart = scatter("t", {"m": [Point(0.1, 0.2, "l"), (None, 0.2, ""), (0.1, math.nan, "")]})
    marks = [g for g in parse(chart).iter("g") if g.attrib.get("class", "").startswith("mark")]
    assert [m.attrib["aria-label"] for m in marks] == ["m: l; x 0.1; y 0.2"]


def test_ranked_is_sorted_and_histogram_counts_all() -> None:
    chart = ranked("t", [("a", 0.3), ("b", 0.1), ("c", 0.2)], reference=(0.15, "limit"))
    said = re.findall(r'aria-label="(\w): ', chart)
    assert said == ["b", "c", "a"]
    values = np.random.default_rng(0).uniform(size=777).tolist()
    counts = re.findall(r'aria-label="(\d+) clients? at', histogram("t", values))
    assert sum(map(int, counts)) == 777


@pytest.mark.parametrize("make", [lambda: dots("t", []), lambda: scatter("t", {})])
def test_charts_of_nothing_are_still_charts(make: object) -> None:
    assert callable(make)
    assert "<figure" in make()


def test_the_first_round_is_a_whole_number() -> None:
    chart = lines("Loss", [Line("loss", [1], [0.5])], x_title="round")
    assert 'class="tick">1</text>' in chart
    assert ">1.0</text>" not in chart


def test_a_heat_map_says_what_its_colours_mean() -> None:
    told = "".join(parse(heat("t", ["a"], ["x", "y"], {"one": [0.5, -0.2]})).itertext())
    assert "above zero, up to +0.500" in told
    assert "below, down to \u22120.200" in told
    told = "".join(parse(heat("t", ["a"], ["x", "y"], {"one": [0.5, 0.0]})).itertext())
    assert "below" not in told
