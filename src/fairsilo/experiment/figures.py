"""The paper's Figures 1 and 2, in its layout: twelve panels each, as PNG and PDF."""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

from fairsilo.data import write_atomic
from fairsilo.experiment.grid import CELLS, FIGURE_2, TITLES, Cell, settings
from fairsilo.experiment.results import Results

STYLES = {
    "fedavg": ("s", "#7f7f7f"),
    "fedavg-local": ("h", "#7a4a2b"),
    "eo": ("^", "#b58900"),
    "eo-conditional": ("<", "#d9a400"),
    "ceo": ("v", "#8c564b"),
    "st": ("D", "#17becf"),
    "af": ("P", "#9467bd"),
    "lco": ("X", "#d1495b"),
    "fedfair": ("o", "#00519c"),
}
TOP = 5


def top_points(table: pd.DataFrame) -> pd.DataFrame:
    """The five settings with the best harmonic mean on the first data set, mean over models."""
    first = table[(table["split"] == "test") & (table["seed"] == 0)]
    columns = ["accuracy", "fairness", "harmonic_mean"]
    means = first.groupby("setting")[columns].mean().dropna().reset_index()
    return means.sort_values("harmonic_mean", ascending=False).head(TOP)


def curve(table: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Fairness and accuracy of FedFair against epsilon: mean and std over the seeds."""
    own = cell.own is not None
    shown = settings(cell, "fedfair") if own else FIGURE_2[cell.data, cell.model]
    rows = table[(table["split"] == "test") & table["setting"].isin(shown)]
    grouped = rows.groupby("setting")[["fairness", "accuracy"]]
    return grouped.agg(["mean", _spread]).rename(columns={"_spread": "std"}).reset_index()


def _spread(values: pd.Series) -> float:
    """Standard deviation over the seeds, as in the tables."""
    return float(values.std(ddof=0))


def figure_1(results: Results, path: str) -> Any:
    """Accuracy against fairness of all methods."""
    figure, axes = plt.subplots(3, 4, figsize=(15, 10.5))
    for axis, cell in zip(axes.flat, CELLS, strict=True):
        axis.set_title(cell.title, fontsize=10)
        for method in cell.methods:
            if results.has(path, cell, method):
                points = top_points(results.models(path, cell, method))
                marker, color = STYLES[method]
                axis.scatter(
                    points["fairness"], points["accuracy"], marker=marker, color=color, s=34,
                    alpha=0.8, label=TITLES[method], linewidths=0,
                )  # fmt: skip
        axis.set_xlabel("fairness")
        axis.set_ylabel("accuracy")
        axis.grid(alpha=0.25)
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=9, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def figure_2(results: Results, path: str) -> Any:
    """The effect of epsilon on FedFair."""
    figure, axes = plt.subplots(3, 4, figsize=(15, 10.5))
    for axis, cell in zip(axes.flat, CELLS, strict=True):
        axis.set_title(cell.title, fontsize=10)
        if results.has(path, cell, "fedfair"):
            table = curve(results.models(path, cell, "fedfair"), cell)
            for name, color, marker in (
                ("fairness", "#00519c", "o"),
                ("accuracy", "#d1495b", "s"),
            ):
                axis.errorbar(
                    table["setting"], table[name]["mean"], table[name]["std"], label=name,
                    color=color, marker=marker, markersize=4, capsize=2, linewidth=1.4,
                )  # fmt: skip
            axis.set_xscale("log")
        axis.set_xlabel("epsilon")
        axis.grid(alpha=0.25)
    axes.flat[0].legend(frameon=False)
    figure.tight_layout()
    return figure


def draw_all(results: Results, path: str) -> list[Path]:
    """Write both figures under `figures/`."""
    written = []
    for name, figure in (("figure1", figure_1), ("figure2", figure_2)):
        drawn = figure(results, path)
        for kind in ("png", "pdf"):
            buffer = io.BytesIO()
            # Without a date the same results give the same file.
            undated = {"CreationDate": None} if kind == "pdf" else {}
            drawn.savefig(buffer, format=kind, dpi=110, metadata=undated)
            target = results.folder / "figures" / f"{name}-{path}.{kind}"
            write_atomic(target, buffer.getvalue())
            written.append(target)
        plt.close(drawn)
    return written
