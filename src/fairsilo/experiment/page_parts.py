"""Common parts of the pages of compare, sweep and reproduce: figures, settings, single models."""

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.evaluate.intervals import Interval
from fairsilo.experiment.endings import RATE
from fairsilo.experiment.figures import top_points
from fairsilo.experiment.grid import SEEDS, TITLES, Cell, title_of
from fairsilo.fairness import DEFAULT, NOTIONS
from fairsilo.report.blocks import Column, paragraph, table
from fairsilo.report.charts import Dot, Line, Point, dots, lines, scatter
from fairsilo.report.html import Child, Html, el
from fairsilo.run.options import Options

ORDER = tuple(TITLES[name] for name in reversed((
    "fedavg-local", "eo-conditional", "eo", "ceo", "fedavg", "af", "st", "lco", "fedfair",
)))  # fmt: skip
"""The order of colours and shapes, so that a method has the same ones in all charts."""
STRONG = TITLES["fedfair"]

MODELS = {
    "lr": "logistic regression",
    "nn": "a network with layers of 8 and 4",
    "additive": "an additive model",
}
METHOD_WORDS = {
    "FedFair": "All clients train one model together, under one limit on the groups' gap.",
    "LCO": "One model, and a limit on the gap of every client's own rows.",
    "ST": "Separate training: every client trains alone on its own rows, under its own limit.",
    "AF": "AgnosticFair: one model for the worst weights that an adversary may give to rows, with "
    "a limit on how far group and score go together under them.",
    "FedAvg": "All clients train one model together, without any limit.",
    TITLES[
        "fedavg-local"
    ]: "FedAvg as its authors have it: in a round every client takes five passes "
    "over its rows in batches of 32, and the models are averaged.",
    "EO": "Equalised odds: each client changes some of FedAvg's answers until the groups' rates "
    "agree on its rows.",
    "EO conditional": "The same with the objective of the method's public code.",
    "CEO": "Calibrated equalised odds: each client replaces some of FedAvg's scores by the "
    "group's base rate.",
    "Constant": "Everybody gets the most frequent class. Perfectly fair, and useless.",
}
HOW = (
    "Fairness is one minus the difference between the groups' true-positive rates: of those who "
    "truly are of the protected class, how much more often one group is recognised. The harmonic "
    "mean joins fairness and accuracy. It is high for constant answers, too, so look at the "
    "balanced accuracy beside it: 0.5 is what a constant has."
)
ENDINGS = (
    "Collapsed: balanced accuracy below 0.53, for every method. Converged: the solver's test is "
    "met in every seed, or what is left to the exact optimum is at most 1e-4. Diverged: training "
    "ended worse than a model that knows nothing; such a setting has no figures and is not chosen."
)
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


def spread(mean: float | None, std: float | None, beside: float | None = None) -> str:
    """0.762 ± 0.014, or without a spread 0.762; and a number to compare it with in brackets."""
    if mean is None or pd.isna(mean):
        return "\N{EN DASH}"
    text = f"{mean:.3f}"
    if not pd.isna(std):
        text += f"\N{NO-BREAK SPACE}\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}{std:.3f}"
    return text if beside is None or pd.isna(beside) else f"{text} ({beside:.2f})"


def over_seeds(seeds: int) -> str:
    """What a figure is."""
    if seeds == 1:
        return "One random data set"
    return f"Mean and standard deviation over {seeds} random data sets"


def methods_explained(names: Sequence[str]) -> Html:
    """The methods' names in words."""
    rows = [[name, METHOD_WORDS[name]] for name in METHOD_WORDS if name in names]
    return table(["Method", "What it does"], rows, sortable=False)


def scatter_of(title: str, parts: dict[str, pd.DataFrame], caption: Child = None) -> Html:
    """Accuracy against fairness, the top five settings of every method."""
    series = {
        title_of(method): [
            Point(
                float(row["fairness"]),
                float(row["accuracy"]),
                f"setting {row['setting']:g}" if part["setting"].nunique() > 1 else "",
            )
            for row in top_points(part).to_dict("records")
        ]
        for method, part in parts.items()
        if method != "constant"
    }
    return scatter(
        title, series, x_title="fairness", y_title="accuracy", caption=caption,
        order=ORDER, strong=STRONG,
    )  # fmt: skip


def curves(
    title: str, x: list[float], figures: pd.DataFrame, caption: Child = None, swept: str = "epsilon"
) -> Html:
    """Fairness and accuracy against what is swept; a band of one standard deviation, up to 1."""
    both = []
    for name in ("fairness", "accuracy"):
        mean, std = figures[name].to_numpy(), figures[f"{name}_std"].to_numpy()
        both.append(Line(name, x, mean, mean - std, np.minimum(mean + std, 1.0)))
    return lines(title, both, x_title=swept, log_x=True, points=True, caption=caption)


def settings_table(rows: Sequence[tuple[str, str]]) -> Html:
    """A table of the settings and of the machine."""
    shown: list[list[Child]] = [
        [name, el("code", value) if value.startswith("fairsilo ") else value]
        for name, value in rows
    ]
    return table(["", ""], shown, sortable=False)


def seeds_text(count: int = len(SEEDS)) -> str:
    """The seeds in words."""
    return "0" if count == 1 else f"0 to {count - 1}: as many random data sets"


def how(cell: Cell) -> str:
    """What fairness is: DEO, or the gap in the rates of the cell's own notion."""
    notion = NOTIONS[cell.options(0).notion]
    if notion.name == DEFAULT.name or not notion.rates:
        return HOW
    return (
        f"Fairness is one minus the largest gap of the groups' rates by the notion {notion.name}: "
        f"{notion.words}. {HOW[HOW.index('The harmonic') :]}"
    )


def about(cell: Cell) -> Html:
    """An explanation of a cell's name."""
    model = MODELS[cell.model]
    if cell.own is not None and cell.own.hidden:
        model = f"a network with layers of {' and '.join(map(str, cell.own.hidden))}"
    if cell.own is not None:
        return paragraph(f"{Path(cell.data).name}, {model}; {_own_rows(cell.own)}")
    split = (
        "every client has rows like everybody's"
        if cell.setting == "iid"
        else "clients differ: one class makes up about 80% of a client's rows (label-skewed)"
    )
    return paragraph(f"{cell.data.upper()}, {model}; {split}.")


def _own_rows(options: Options) -> str:
    """Who holds the rows of an own table, and what differs between its seeds."""
    limits = "over all rows" if options.estimator == "pooled" else "averaged over the clients"
    if options.client is not None or Path(options.data).is_dir():
        held = f"clients as column {options.client} says" if options.client else "a file per client"
        drawn = options.split is None
    else:
        held, drawn = f"rows dealt out to the clients ({options.partition})", True
    differs = (
        "every seed draws anew"
        if drawn
        else f"the columns {options.client} and {options.split} fix who holds and who tests a row, "
        "so that seeds differ in what methods draw only, and the spread says nothing of the rows"
    )
    return f"{held}; gaps {limits} (estimator {options.estimator}); {differs}."


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
    figures: dict[str, Column | str] = {
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
