"""The self-contained HTML pages of compare and sweep."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fairsilo.experiment.endings import RATE
from fairsilo.experiment.grid import (
    AIMED,
    Cell,
    aimed_title,
    home_of,
    settings,
    solver_of,
    title_of,
)
from fairsilo.experiment.page_parts import (
    ENDINGS,
    LINES,
    PAYS,
    REPAIRS,
    STRONG,
    SURE,
    Heads,
    Row,
    about,
    curves,
    how,
    methods_explained,
    over_seeds,
    pays_table,
    scatter_of,
    seeds_text,
    settings_table,
    spread,
    sure_dots,
    sure_table,
    training_lines,
    training_table,
)
from fairsilo.experiment.results import describe, machine
from fairsilo.experiment.summary import words
from fairsilo.experiment.tables import METRICS
from fairsilo.report.blocks import Column, grid, paragraph, table, table_page
from fairsilo.report.charts import Line, lines
from fairsilo.report.html import Child, Html

_CHOSEN = {
    "fedfair": "FedFair (epsilon)",
    "lco": "LCO (epsilon)",
    "st": "ST (epsilon)",
    "af": "AF (tau)",
}
"""Methods with a setting to choose, and what it is."""


_BARE = ("fedavg-local", "st", "af")
"""Methods whose models have no penalty and no pairs, whatever those of the others have."""


def compare_page(
    cell: Cell,
    summary: pd.DataFrame,
    parts: dict[str, pd.DataFrame],
    command: str,
    path: str,
    seeds: int,
) -> str:
    """All methods side by side."""
    rows = summary.to_dict("records")
    best = [row for row in rows if row["chosen_on"] in ("", "test")]
    names = [row["method"] for row in best]
    heads: Heads = {
        "method": "Method",
        "setting": Column("Setting", "figure"),
        "chosen_on": "Chosen on",
    }
    sections: list[tuple[str, list[Child]]] = [
        (
            "Accuracy against fairness",
            [
                scatter_of(
                    "The five best settings of each method",
                    parts,
                    "On the first data set (seed 0). Up and to the right is better. Points can "
                    "coincide: a click on a name hides that method.",
                )
            ],
        ),
        (
            "All methods",
            [
                paragraph(
                    f"{over_seeds(seeds)}, on test rows "
                    "(over all clients' models for ST, EO and CEO). A method with a setting to "
                    "choose has two rows: chosen on the test rows, as the paper did, and "
                    "honestly, on validation rows."
                ),
                _figures([{**row, "setting": _setting(row["setting"])} for row in rows], heads),
                paragraph(ENDINGS),
                *_without(cell, names),
            ],
        ),
        *_models(best, names, {"method": "Method"}),
        ("The methods", [methods_explained([row["method"] for row in rows])]),
        _settings(
            command,
            seeds,
            _solver(path, cell, "fedfair"),
            *(
                (f"Settings of {name}", ", ".join(f"{value:g}" for value in settings(cell, code)))
                for code, name in _CHOSEN.items()
                if code in parts
            ),
            *_target(cell, list(parts)),
        ),
    ]
    title = f"{cell.title}: all methods"
    return table_page(title, sections, lead=_compare_lead(best), header=[about(cell), how(cell)])


def _without(cell: Cell, names: Sequence[str]) -> list[Child]:
    """Whose models lack what the others have: they would have been better with it."""
    options = cell.options(0)
    bare = [title_of(one) for one in _BARE if title_of(one) in names]
    if not bare or (options.strength is None and not options.crossed):
        return []
    lacks = "neither penalty nor pairs of features" if options.crossed else "no penalty"
    have = "has" if len(bare) == 1 else "have"
    told = (
        f"{' and '.join(bare)} {have} {lacks} here, as the other methods do: a part of the "
        "difference in accuracy is due to that, and not to the method."
    )
    return [paragraph(told)]


def sweep_page(
    cell: Cell,
    method: str,
    summary: pd.DataFrame,
    command: str,
    path: str,
    seeds: int,
    swept: str = "epsilon",
) -> str:
    """Fairness and accuracy against epsilon, or against a target in rates."""
    x = summary["epsilon"].tolist()
    names = [f"{swept} {value:g}" for value in x]
    heads = {"name": Column(swept.capitalize(), "figure")}
    rows = summary.assign(name=[f"{value:g}" for value in x]).to_dict("records")
    sections: list[tuple[str, list[Child]]] = [
        (
            f"The effect of the {swept}" if swept != "epsilon" else "The effect of epsilon",
            [
                curves(
                    "Fairness and accuracy on the test rows",
                    x,
                    summary,
                    over_seeds(seeds),
                    swept,
                ),
                _figures(rows, heads, {"dgeo_pooled": "Difference of losses (DGEO)"}),
                paragraph(ENDINGS.replace(" and below FedFair's", "")),
            ],
        ),
        *_models(rows, names, heads, _rate_lines(x, summary, swept)),
        _settings(command, seeds, _solver(path, cell, method, swept)),
    ]
    title = f"{cell.title}: {method} against {swept}"
    return table_page(
        title, sections, lead=_sweep_lead(rows, swept), header=[about(cell), how(cell)]
    )


def _compare_lead(rows: list[Row]) -> str:
    fair = next(row for row in rows if row["method"] == STRONG)
    others = [
        row
        for row in rows
        if not row["method"].startswith(STRONG)
        and not row["collapsed"]
        and row["harmonic_mean"] is not None
    ]
    best = max(others, key=lambda row: np.nan_to_num(row["harmonic_mean"]), default=None)
    text = (
        f"FedFair answers {fair['accuracy']:.1%} of the test rows correctly with a fairness of "
        f"{fair['fairness']:.3f}: a harmonic mean of {fair['harmonic_mean']:.3f}."
    )
    if best is None:
        return text
    verb = "above" if fair["harmonic_mean"] >= best["harmonic_mean"] else "below"
    return (
        f"{text} That is {verb} the best of the other methods that did not collapse, "
        f"{best['method']} with {best['harmonic_mean']:.3f}."
    )


def _sweep_lead(rows: list[Row], swept: str) -> str:
    whole = [row for row in rows if not pd.isna(row["harmonic_mean"])]
    if not whole:
        return f"Training diverged at every {swept}: there is no model to speak of."
    low, high = whole[0], whole[-1]
    best = max(whole, key=lambda row: row["harmonic_mean"])
    return (
        f"From {swept} {high['epsilon']:g} down to {low['epsilon']:g}, fairness goes from "
        f"{high['fairness']:.3f} to {low['fairness']:.3f} and accuracy from "
        f"{high['accuracy']:.3f} to {low['accuracy']:.3f}. The best harmonic mean, "
        f"{best['harmonic_mean']:.3f}, is at {swept} {best['epsilon']:g}."
    )


def _figures(rows: list[Row], heads: Heads, more: Mapping[str, str] | None = None) -> Html:
    """Mean and spread of the metrics and of `more`, by key and title, and how training ended."""
    titles = {name: name.replace("_", " ").capitalize() for name in METRICS} | {**(more or {})}
    columns: list[Column | str] = [
        *heads.values(),
        *(Column(title, "figure") for title in titles.values()),
        Column("Balanced accuracy", "number", 3),
        "Training",
    ]
    shown = [
        [
            *(row[key] for key in heads),
            *(spread(row[name], row[f"{name}_std"]) for name in titles),
            row["balanced_accuracy"],
            _words(row),
        ]
        for row in rows
    ]
    return table(columns, shown, dense=True)


def _words(row: Row) -> str:
    lost = int(row.get("settings_diverged") or 0)
    return words(row["ending"], row["collapsed"], lost=lost)


def _models(
    rows: list[Row],
    names: list[str],
    heads: Heads,
    rates: Sequence[Child] = (),
) -> list[tuple[str, list[Child]]]:
    """Sections about the models: intervals, groups and clients, training."""
    return [
        (
            "How sure are we?",
            [
                paragraph(SURE),
                grid(
                    *(
                        sure_dots(f"{name.capitalize()} on the test rows", name, rows, names)
                        for name in ("fairness", "accuracy")
                    )
                ),
                sure_table(rows, heads),
            ],
        ),
        ("Who pays for it?", [*rates, paragraph(PAYS), pays_table(rows, heads)]),
        (
            "How training went",
            [
                paragraph(f"{LINES} {REPAIRS}" if "method" in heads else LINES),
                grid(*training_lines(rows, names)),
                training_table(rows, heads),
            ],
        ),
    ]


def _rate_lines(x: list[float], summary: pd.DataFrame, swept: str) -> list[Child]:
    groups = [str(name) for name in summary if str(name).startswith(RATE)]
    series = [Line(name.removeprefix(RATE), x, summary[name].to_numpy()) for name in groups]
    return [
        lines(
            "How often each group is recognised",
            series,
            x_title=swept,
            log_x=True,
            points=True,
            unit="percent",
            caption="Test rows whose true class is the protected one",
        )
    ]


def _target(cell: Cell, names: list[str]) -> list[tuple[str, str]]:
    """What a comparison has to a target in rates."""
    told = cell.own
    if told is None or told.target_deo is None:
        return []
    aimed = [name for one in AIMED if (name := aimed_title(one, told.target_deo)) in names]
    sure = "" if told.target_confidence is None else f", with confidence {told.target_confidence:g}"
    words = f"rates within {told.target_deo:g}{sure}: {', '.join(aimed)}, which have one setting"
    return [("Target", words)] if aimed else []


def _solver(path: str, cell: Cell, method: str, swept: str = "epsilon") -> str:
    solver, rounds = solver_of(home_of(path, method), cell, method)
    if swept != "epsilon":
        return solver.name  # with as many rounds as `train` has
    return f"{solver.name}, at most {rounds:,} rounds"


def _settings(
    command: str, seeds: int, solver: str, *more: tuple[str, str]
) -> tuple[str, list[Child]]:
    made = [("Command", command), ("Made by", describe(machine())), ("Seeds", seeds_text(seeds))]
    return "Settings", [settings_table([*made, ("Solver", solver), *more])]


def _setting(value: float | None) -> str:
    return "" if value is None or pd.isna(value) else f"{value:g}"
