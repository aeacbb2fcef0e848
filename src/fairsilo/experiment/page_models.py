"""Parts of pages about single models: intervals, groups and clients, training."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from fairsilo.evaluate.intervals import Interval
from fairsilo.experiment.endings import RATE
from fairsilo.experiment.grid import TITLES
from fairsilo.experiment.page_parts import ORDER
from fairsilo.report.blocks import Column, table
from fairsilo.report.charts import Dot, Line, dots, lines
from fairsilo.report.html import Child, Html

Row = dict[Hashable, Any]
Heads = Mapping[str, Column | str]
"""The columns of a table by the keys of its rows."""

SURE = (
    "The test rows are a sample, so every figure could be somewhat higher or lower in the "
    "population: the intervals hold the true figure of a model with 95% confidence (Wilson's for "
    "accuracy, Newcombe's for the gap in rates behind fairness). Their ends are means over the "
    "models. Intervals that overlap do not say that two methods are alike: both are measured on "
    "the same rows."
)
LINES = (
    "The lines show the first data set (seed 0). Rounds are those of the data set that took the "
    "most, bytes a mean over all."
)
REPAIRS = "EO and CEO change the answers of FedAvg and have no training of their own."
PAYS = (
    "Recognised: the share of the group's test rows of the protected class that is predicted so. "
    "Accuracy and the gap of single clients are on their training rows. All are means over the "
    "data sets."
)
CHARTS = (
    ("loss", "average loss", "What training makes small, on the training rows."),
    (
        "gap",
        "gap in loss between the groups (D)",
        "Of several limits (LCO), the size of the largest gap; of ST, a mean over clients.",
    ),
    ("multiplier", "how hard the limit pushes (multiplier)", "Zero: it costs nothing."),
)
MANY = 50
REPAIRED = tuple(TITLES[name] for name in ("eo", "eo-conditional", "ceo", "constant"))
"""Methods without a training of their own."""


def sure_dots(title: str, name: str, rows: Sequence[Row], names: Sequence[str]) -> Html:
    """A chart of one figure of every model, with its interval."""
    return dots(
        title,
        [
            Dot(label, row[name], _interval(row, name))
            for label, row in zip(names, rows, strict=True)
            if not pd.isna(row[name])
        ],
        caption="95% intervals from the test rows of one data set",
    )


def sure_table(rows: Sequence[Row], heads: Heads) -> Html:
    """Accuracy and fairness with their intervals."""
    known = [{**row} for row in rows if not pd.isna(row["accuracy"])]
    columns = {**heads}
    for name in ("accuracy", "fairness"):
        columns[name] = Column(name.capitalize(), "figure")
        columns[f"{name} interval"] = Column("95% interval", "figure")
        for row in known:
            span = _interval(row, name)
            row[f"{name} interval"] = "" if span is None else f"{span.low:.3f} to {span.high:.3f}"
            row[name] = f"{row[name]:.3f}"
    return _table(known, columns)


def pays_table(rows: Sequence[Row], heads: Heads) -> Html:
    """Rates of the groups, and the least and most accurate client."""
    groups = [str(key) for key in rows[0] if str(key).startswith(RATE)]
    figures = {
        **{key: Column(f"{key.removeprefix(RATE)}: recognised", "percent") for key in groups},
        "client_accuracy_least": Column("Least accurate client", "percent"),
        "client_accuracy_most": Column("Most accurate client", "percent"),
        "client_dgeo_largest": Column("Largest gap of a client (DGEO)", "number", 3),
    }
    known = [row for row in rows if not all(pd.isna(row.get(name)) for name in figures)]
    return _table(known, {**heads, **figures})


def training_table(rows: Sequence[Row], heads: Heads) -> Html:
    """Rounds, bytes, and how training ended."""
    figures = {
        "rounds": Column("Rounds", "count"),
        "bytes_up": Column("Sent by all clients", "size"),
        "bytes_down": Column("Received by all clients", "size"),
        "ending": "Ended",
    }
    trained = [
        {**row, "ending": row["ending"] if isinstance(row["ending"], str) else ""}
        for row in rows
        if row.get("method") != TITLES["constant"]
    ]
    return _table(trained, {**heads, **figures})


def _table(rows: Sequence[Row], columns: Heads) -> Html:
    """A table with a line for each model."""
    shown = [[None if pd.isna(row.get(key)) else row[key] for key in columns] for row in rows]
    return table(list(columns.values()), shown, dense=True)


def training_lines(rows: Sequence[Row], names: Sequence[str], prefix: str = "") -> list[Child]:
    """Loss, gap and multiplier by round on the first data set, a line for each model."""
    traces = {
        name: json.loads(row["trace"])
        for name, row in zip(names, rows, strict=True)
        if isinstance(row.get("trace"), str) and name not in REPAIRED
    }
    # On a linear axis a model with many rounds would squeeze the others.
    log = max((trace["round"][-1] for trace in traces.values()), default=0) > MANY
    charts: list[Child] = []
    for key, title, caption in CHARTS:
        series = [
            Line(name, trace["round"], trace[key])
            for name, trace in traces.items()
            if any(value is not None for value in trace[key])
        ]
        if series:
            whole = f"{prefix}: {title}" if prefix else f"{title[0].upper()}{title[1:]}"
            charts.append(
                lines(whole, series, x_title="round", log_x=log, caption=caption, order=ORDER)
            )
    return charts


def _interval(row: Row, name: str) -> Interval | None:
    """The interval of a figure; None for results of earlier versions."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if pd.isna(low) or pd.isna(high) else Interval(float(low), float(high))
