"""Common parts of the pages of compare, sweep and reproduce: figures, names, settings."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairsilo.experiment.figures import top_points
from fairsilo.experiment.grid import SEEDS, TITLES, Cell
from fairsilo.report.blocks import paragraph, table
from fairsilo.report.charts import Line, Point, lines, scatter
from fairsilo.report.html import Child, Html, el

ORDER = tuple(TITLES[name] for name in reversed((
    "eo-conditional", "eo", "ceo", "fedavg", "af", "st", "lco", "fedfair",
)))  # fmt: skip
"""The order of colours and shapes, so that a method has the same ones in all charts."""
STRONG = TITLES["fedfair"]

METHOD_WORDS = {
    "FedFair": "All clients train one model together, under one limit on the mean of their gaps.",
    "LCO": "One model, and a limit on the gap of every client's own rows.",
    "ST": "Separate training: every client trains alone on its own rows, under its own limit.",
    "AF": "AgnosticFair: rows are reweighed against the worst mixture of clients, with a limit "
    "on the link between group and answer.",
    "FedAvg": "All clients train one model together, without any limit.",
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
    "Collapsed: balanced accuracy below 0.53 and below FedFair's. Converged: the solver's test is "
    "met in every seed, or what is left to the exact optimum is at most 1e-4. Diverged: training "
    "ended worse than a model that knows nothing; such a setting has no figures and is not chosen."
)


def spread(mean: float | None, std: float | None, beside: float | None = None) -> str:
    """0.762 ± 0.014, and a number to compare it with in brackets."""
    if mean is None or pd.isna(mean):
        return "\N{EN DASH}"
    text = f"{mean:.3f}\N{NO-BREAK SPACE}\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}{std:.3f}"
    return text if beside is None or pd.isna(beside) else f"{text} ({beside:.2f})"


def methods_explained(names: Sequence[str]) -> Html:
    """The methods' names in words."""
    rows = [[name, METHOD_WORDS[name]] for name in METHOD_WORDS if name in names]
    return table(["Method", "What it does"], rows, sortable=False)


def scatter_of(title: str, parts: dict[str, pd.DataFrame], caption: Child = None) -> Html:
    """Accuracy against fairness, the top five settings of every method."""
    series = {
        TITLES[method]: [
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


def curves(title: str, x: list[float], figures: pd.DataFrame, caption: Child = None) -> Html:
    """Fairness and accuracy against epsilon, with a band of one standard deviation, up to 1."""
    both = []
    for name in ("fairness", "accuracy"):
        mean, std = figures[name].to_numpy(), figures[f"{name}_std"].to_numpy()
        both.append(Line(name, x, mean, mean - std, np.minimum(mean + std, 1.0)))
    return lines(title, both, x_title="epsilon", log_x=True, points=True, caption=caption)


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


def about(cell: Cell) -> Html:
    """An explanation of a cell's name."""
    split = (
        "every client has rows like everybody's"
        if cell.setting == "iid"
        else "clients differ: one class makes up about 80% of a client's rows (label-skewed)"
    )
    model = "logistic regression" if cell.model == "lr" else "a network with layers of 8 and 4"
    return paragraph(f"{cell.data.upper()}, {model}; {split}.")
