"""Pages to look at: compare, sweep and reproduce as self-contained HTML."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairsilo.experiment.figures import curve, top_points
from fairsilo.experiment.grid import CELLS, TITLES, Cell
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import METRICS
from fairsilo.report import (
    Column,
    Html,
    Line,
    Point,
    grid,
    lines,
    paragraph,
    scatter,
    table,
    table_page,
)


def scatter_of(title: str, parts: dict[str, pd.DataFrame]) -> Html:
    """Accuracy against fairness, the top five settings of every method."""
    series = {
        TITLES[method]: [
            Point(float(row["fairness"]), float(row["accuracy"]), f"setting {row['setting']:g}")
            for row in top_points(part).to_dict("records")
        ]
        for method, part in parts.items()
    }
    return scatter(title, series, x_title="fairness", y_title="accuracy")


def compare_page(title: str, summary: pd.DataFrame, parts: dict[str, pd.DataFrame]) -> str:
    """All methods side by side."""
    sections = [
        ("Accuracy against fairness", [scatter_of("Top five settings of each method", parts)]),
        ("All methods", [frame_table(summary)]),
    ]
    return table_page(title, sections, lead=_HOW)


def sweep_page(title: str, summary: pd.DataFrame) -> str:
    """Fairness and accuracy against epsilon."""
    x = summary["epsilon"].tolist()

    def line(name: str) -> Line:
        mean, spread = summary[name].to_numpy(), summary[f"{name}_std"].to_numpy()
        return Line(name, x, mean, mean - spread, mean + spread)

    chart = lines(
        "Fairness and accuracy on the test rows",
        [line("fairness"), line("accuracy")],
        x_title="epsilon",
        log_x=True,
        points=True,
        caption="Mean and standard deviation over the seeds",
    )
    return table_page(title, [("The effect of epsilon", [chart, frame_table(summary)])])


def reproduce_page(
    results: Results,
    tables: pd.DataFrame,
    verdicts: Sequence[tuple[str, pd.DataFrame]],
    theorems: pd.DataFrame | None,
) -> str:
    """Both tables, both figures and the theorems."""
    sections: list[tuple[str, list[Html]]] = []
    for name, found in verdicts:
        if found.empty:
            continue
        best, near = int(found["best_or_close"].sum()), int(found["near_paper"].sum())
        sections.append(
            (
                f"Does FedFair come out best? ({name})",
                [
                    paragraph(
                        f"In {best} of {len(found)} cells FedFair has the best harmonic mean of "
                        "the methods that did not collapse, or is within 0.005 of it; in "
                        f"{near} of {len(found)} it is within 0.02 of the paper's or above."
                    ),
                    frame_table(found),
                ],
            )
        )
    for setting in ("iid", "non-iid"):
        part = tables[(tables["setting"] == setting) & (tables["selection"] == "test")]
        if len(part):
            sections.append(
                (
                    f"Table {1 if setting == 'iid' else 2}: {setting}",
                    [frame_table(_beside(part))],
                )
            )
    for title, panel in (("Figure 1", _panel), ("Figure 2", _curves)):
        panels = [panel(results, cell) for cell in CELLS]
        sections.append((title, [grid(*(one for one in panels if one is not None))]))
    if theorems is not None:
        sections.append(("The theorems, on held-out rows", [frame_table(theorems)]))
    return table_page("The paper, reproduced", sections, lead=_HOW)


def frame_table(frame: pd.DataFrame) -> Html:
    """A data frame as a sortable table."""
    columns = [
        Column(str(name).replace("_", " "), "number" if _numeric(frame[name]) else "text", 4)
        for name in frame.columns
    ]
    rows = [
        [None if pd.isna(value) else value for value in row]
        for row in frame.itertuples(index=False)
    ]
    return table(columns, [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> str | int | float | None:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return value if value is None or isinstance(value, int | float) else str(value)


def _numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _beside(part: pd.DataFrame) -> pd.DataFrame:
    """Ours beside the paper's, and the difference."""
    shown = part[["dataset", "model", "method", "solver", "ours_opt", "opt"]].copy()
    for metric in METRICS:
        shown[f"ours {metric}"] = part[f"ours_{metric}"]
        shown[f"paper {metric}"] = part[metric].astype(float)
        shown[f"difference {metric}"] = part[f"ours_{metric}"] - part[metric].astype(float)
    shown["balanced accuracy"] = part["ours_balanced_accuracy"]
    shown["collapsed"] = part["collapsed"]
    return shown


def _panel(results: Results, cell: Cell) -> Html | None:
    parts = {
        method: results.models("fast", cell, method)
        for method in cell.methods
        if results.has("fast", cell, method)
    }
    return scatter_of(cell.title, parts) if parts else None


def _curves(results: Results, cell: Cell) -> Html | None:
    """Fairness and accuracy of FedFair against epsilon."""
    if not results.has("fast", cell, "fedfair"):
        return None
    points = curve(results.models("fast", cell, "fedfair"), cell)
    x = points["setting"].tolist()
    both = []
    for name in ("fairness", "accuracy"):
        mean, spread = points[name]["mean"].to_numpy(), points[name]["std"].to_numpy()
        both.append(Line(name, x, mean, mean - spread, mean + spread))
    return lines(cell.title, both, x_title="epsilon", log_x=True, points=True)


_HOW = (
    "Fairness is one minus the difference of the groups' true-positive rates; the harmonic mean "
    "joins it with accuracy and is high for constant answers, too: look at the balanced accuracy. "
    "The setting of each method is the one with the best harmonic mean on the test rows, as in "
    "the paper, unless it says validation."
)
