"""Draw the results of `benchmarks.cpu` as bars.

python -m benchmarks.bars        # benchmarks/results/cpu.json -> docs/benchmarks.svg
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]


def draw(results: Path, picture: Path) -> None:
    """One panel for each workload that several contestants took; logarithmic, shorter is better."""
    rows = [row for row in json.loads(results.read_text()) if row["quantity"] == "CPU ms per round"]
    names = list(dict.fromkeys(row["workload"] for row in rows if "what" in row))
    figure, axes = plt.subplots(
        len(names), 1, figsize=(7, 0.8 + 2.1 * len(names)), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes[:, 0], names, strict=True):
        mine = sorted(
            (row for row in rows if row["workload"] == name), key=lambda row: float(row["value"])
        )
        values = [row["value"] for row in mine]
        ends = [
            [max(row["value"] - row["spread"][0], 0) for row in mine],
            [max(row["spread"][1] - row["value"], 0) for row in mine],
        ]
        colours = ["#1b6ca8" if row["contestant"] == "fairsilo" else "#b8c4ce" for row in mine]
        axis.barh([row["contestant"] for row in mine], values, xerr=ends, color=colours)
        for at, row in enumerate(mine):
            axis.annotate(f" {row['ratio to ours']:.2g} x", (row["spread"][1], at), va="center")
        axis.set_xscale("log")
        axis.margins(x=0.15)
        axis.invert_yaxis()
        axis.set_title(mine[0]["what"], fontsize=9)
        axis.set_xlabel("CPU milliseconds (one core)", fontsize=8)
    mpl.rcParams["svg.fonttype"] = "none"
    figure.savefig(picture)
    plt.close(figure)


if __name__ == "__main__":
    draw(ROOT / "benchmarks/results/cpu.json", ROOT / "docs/benchmarks.svg")
