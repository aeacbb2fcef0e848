"""Draw the results of `benchmarks.cpu` as bars, shorter is better.

    python -m benchmarks.bars        # benchmarks/results/cpu.json -> docs/benchmarks*.svg

The pictures show the rounds of all frameworks, the costs to reach the optimum, and growth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
OURS, OTHERS = "#1b6ca8", "#b8c4ce"


@dataclass(frozen=True)
class Bar:
    """A bar, the end of its spread, and its labels."""

    name: str
    value: float
    ends: tuple[float, float]
    note: str
    ours: bool


@dataclass(frozen=True)
class Panel:
    """Bars under one title."""

    title: str
    unit: str
    bars: list[Bar]


def bar_of(row: dict[str, Any], name: str, note: str, ours: bool) -> Bar:
    """The bar for a row of the result."""
    spread = row["spread"] or [row["value"], row["value"]]
    return Bar(name, row["value"], (spread[0], spread[1]), note, ours)


def rounds(rows: list[dict[str, Any]]) -> list[Panel]:
    """One panel for each workload that several contestants took."""
    timed = [row for row in rows if "what" in row and row["quantity"] == "CPU ms per round"]
    panels = []
    for title in dict.fromkeys(row["what"] for row in timed):
        mine = sorted((row for row in timed if row["what"] == title), key=_value)
        bars = [
            bar_of(
                row,
                row["contestant"],
                f"{row['ratio to ours']:,.{0 if row['ratio to ours'] >= 10 else 1}f} x",
                row["contestant"] == "fairsilo",
            )
            for row in mine
        ]
        panels.append(Panel(title, "CPU milliseconds (one core)", bars))
    return panels


def to_the_optimum(rows: list[dict[str, Any]]) -> list[Panel]:
    """Rounds and bytes of the solvers until they are within 1e-4 of the optimum."""
    mine = [row for row in rows if row["workload"] == "optimum" and row["gap"] == 1e-4]
    panels = []
    for quantity in ("rounds", "bytes up per client"):
        bars = []
        for row in mine:
            if row["quantity"] == quantity:
                solver = row["contestant"].removeprefix("fairsilo, ")
                never = "" if row["arrived"] else ", and not there"
                note = f"{row['ratio to ours']:.3g} x{never}"
                bars.append(bar_of(row, f"{row['data']}, {solver}", note, solver != "agp"))
        if bars:
            panels.append(Panel("within 1e-4 of the optimum, ADULT, COMPAS, DRUG", quantity, bars))
    return panels


def growth(rows: list[dict[str, Any]]) -> list[Panel]:
    """The time of a round at every size; the title has the fitted exponent."""
    panels = []
    for kind in ("clients", "rows", "features"):
        mine = [row for row in rows if row["workload"] == f"growth with {kind}"]
        timed = [row for row in mine if row["quantity"] == "CPU ms per round"]
        if not timed:
            continue
        slopes = {row["method"]: row["value"] for row in mine if row["quantity"] == "slope of time"}
        fitted = ", ".join(f"{method} {slope:.2f}" for method, slope in slopes.items())
        bars = [
            bar_of(
                row,
                f"{row['size']:,} {kind}, {row['method']}",
                f"{row['value']:.3g} ms",
                row["method"] == "fedfair",
            )
            for row in timed
        ]
        title = f"one round, growth with {kind}: fitted exponent {fitted}"
        panels.append(Panel(title, "CPU milliseconds", bars))
    return panels


def _value(row: dict[str, Any]) -> float:
    return float(row["value"])


def draw(panels: list[Panel], picture: Path) -> None:
    """Draw the panels below each other, with a logarithmic axis."""
    heights = [0.7 + 0.28 * len(panel.bars) for panel in panels]
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(7, sum(heights) + 0.4),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for axis, panel in zip(axes[:, 0], panels, strict=True):
        bars = panel.bars
        ends = [
            [max(bar.value - bar.ends[0], 0) for bar in bars],
            [max(bar.ends[1] - bar.value, 0) for bar in bars],
        ]
        colours = [OURS if bar.ours else OTHERS for bar in bars]
        axis.barh([bar.name for bar in bars], [bar.value for bar in bars], xerr=ends, color=colours)
        for at, bar in enumerate(bars):
            axis.annotate(f" {bar.note}", (bar.ends[1], at), va="center", fontsize=8)
        axis.set_xscale("log")
        axis.margins(x=0.2)
        axis.invert_yaxis()
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel(panel.unit, fontsize=8)
        axis.tick_params(labelsize=8)
    mpl.rcParams["svg.fonttype"] = "none"
    figure.savefig(picture)
    plt.close(figure)


PICTURES: dict[str, Callable[[list[dict[str, Any]]], list[Panel]]] = {
    "benchmarks.svg": rounds,
    "benchmarks-optimum.svg": to_the_optimum,
    "benchmarks-growth.svg": growth,
}


def draw_all(results: Path, folder: Path) -> None:
    """Draw every picture for which there are results."""
    rows = json.loads(results.read_text())
    for name, panels_of in PICTURES.items():
        panels = panels_of(rows)
        if panels:
            draw(panels, folder / name)


if __name__ == "__main__":
    draw_all(ROOT / "benchmarks/results/cpu.json", ROOT / "docs")
