"""Draw the pictures of "Choosing epsilon", light and dark, from what `fairsilo sweep` wrote.

EPSILONS=0.001,0.003,0.01,0.03,0.1,0.2,0.4,0.8
fairsilo sweep --data adult --epsilons $EPSILONS --seeds 10 --out runs/epsilon-adult
fairsilo sweep --data compas --epsilons $EPSILONS --seeds 10 --out runs/epsilon-compas
python docs/tools/pictures.py runs/epsilon-adult/sweep.csv runs/epsilon-compas/sweep.csv
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd

OUT = Path(__file__).parents[1] / "img"
LOOKS = {
    "light": {"text": "#333333", "grid": "#dddddd", "lines": ("#00796b", "#c2410c", "#1d4ed8")},
    "dark": {"text": "#dddddd", "grid": "#444444", "lines": ("#4db6ac", "#fb923c", "#93c5fd")},
}


def band(axis: Any, frame: pd.DataFrame, name: str, colour: str, label: str, marker: str) -> None:
    """A line with one standard deviation over the seeds to either side."""
    mean, std = frame[name], frame[f"{name}_std"]
    axis.plot(frame["epsilon"], mean, marker=marker, ms=5, color=colour, label=label)
    axis.fill_between(frame["epsilon"], mean - std, mean + std, color=colour, alpha=0.15, lw=0)


def draw(tables: dict[str, pd.DataFrame], look: dict[str, Any], path: Path) -> None:
    """Gaps above, accuracy below, one column per data set."""
    text, grid, (rates, losses, right) = look["text"], look["grid"], look["lines"]
    plain = {"axes.edgecolor": grid, "axes.labelcolor": text, "text.color": text}
    plain |= {"xtick.color": text, "ytick.color": text, "svg.fonttype": "none", "font.size": 11}
    plain |= {"svg.hashsalt": "fairsilo", "font.family": "sans-serif"}
    with matplotlib.rc_context(plain):
        figure, axes = plt.subplots(
            2, len(tables), figsize=(5 * len(tables), 6), sharex=True, squeeze=False
        )
        for column, (name, frame) in enumerate(tables.items()):
            frame["gap"], frame["gap_std"] = 1 - frame["fairness"], frame["fairness_std"]
            gaps, accuracy = axes[0, column], axes[1, column]
            band(gaps, frame, "gap", rates, "rates (DEO)", "o")
            band(gaps, frame, "dgeo_pooled", losses, "losses (DGEO)", "s")
            gaps.plot(frame["epsilon"], frame["epsilon"], ":", color=text, lw=1, label="epsilon")
            gaps.set_ylim(0, 1.25 * frame["dgeo_pooled"].max())
            gaps.set_title(name, fontsize=12)
            band(accuracy, frame, "accuracy", right, "accuracy", "o")
            middle = frame["accuracy"].mean()
            accuracy.set_ylim(middle - 0.03, middle + 0.03)
            accuracy.set_xlabel("epsilon")
            for axis in (gaps, accuracy):
                axis.set_xscale("log")
                axis.xaxis.set_major_formatter("{x:g}")
                axis.grid(color=grid, lw=0.6)
                axis.spines[["top", "right"]].set_visible(False)
        axes[0, 0].set_ylabel("gap between the groups")
        axes[1, 0].set_ylabel("accuracy")
        axes[0, 0].legend(frameon=False, loc="upper left")
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def main(paths: list[str]) -> None:
    """One CSV per data set; the folder of each is named epsilon-DATA."""
    tables = {
        Path(path).parent.name.removeprefix("epsilon-").upper(): pd.read_csv(path) for path in paths
    }
    for name, look in LOOKS.items():
        path = OUT / f"epsilon-{name}.svg"
        draw(tables, look, path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
