"""What `compare`, `sweep` and `reproduce` share: whose rows, how they are read, what is printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import warnings_as_typed
from fairsilo.cli.shared_options import OPTIONS, TABLE, options_from, typed
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    import pandas as pd

    from fairsilo.experiment.grid import Cell
    from fairsilo.experiment.reproduce import Tables
    from fairsilo.run import Options

Seeds = Annotated[int, typer.Option(help="How many random data sets (seeds 0, 1, ...).")]
Path_ = Annotated[str, typer.Option("--solver", help="fast (Newton, L-BFGS) or agp (the paper's).")]
SOLVERS = ("fast", "agp")
STUDIED = (*TABLE, "class_weight", "penalty", "hidden", "estimator", "notion")
"""What is trained on which rows, and what is made equal."""
_WHOLE = ("method", "chosen_on")


def cell_of(given: dict[str, Any], model: str) -> Cell:
    """The paper's, where nothing is said but its own options; else one of the given table."""
    from fairsilo.data import DATASETS
    from fairsilo.experiment.grid import OWN_DATA, Cell, find

    known("model", model, ("lr", "mlp", "additive"))
    options = own_options(given, model)
    name = "nn" if model == "mlp" else model
    said = {word.split()[0] for word in typed(given, estimator=None)}
    partition = options.partition
    paper = (
        options.data in DATASETS
        and model != "additive"
        and not said - {"--data", "--partition", "--data-dir"}
    )
    if not paper or partition not in ("iid", "skewed"):
        return Cell(options.data, name, OWN_DATA, options)
    return find(f"{options.data}-{name}-{'iid' if partition == 'iid' else 'non-iid'}")


def own_options(given: dict[str, Any], model: str) -> Options:
    """The options of a comparison, whose estimator is asked for or depends on the data."""
    told = dict(given)
    if told.get("estimator") is None:
        told["estimator"] = OPTIONS["estimator"].default
    return options_from(told, model=model)


def tables_of(cell: Cell, given: dict[str, Any], seeds: int, validation: bool) -> Tables:
    """The rows of every seed, read and checked."""
    from fairsilo.experiment.cell import check_measurable
    from fairsilo.experiment.reproduce import Tables

    tables = Tables(cell, given["data_dir"], range(positive("--seeds", seeds)))
    with warnings_as_typed():
        tables.prepare(validation)
    check_measurable([*tables.full, *(tables.held if validation else ())])
    return tables


def command_of(name: str, given: dict[str, Any], model: str, seeds: int, solver: str) -> str:
    """What was typed, without the folder of this machine's files."""
    said = typed({**given, "data_dir": None}, estimator=None)
    own = [f"--model {model} --seeds {seeds} --solver {solver}"]
    return " ".join([f"fairsilo {name}", *said, *own])


def known(option: str, value: str, names: tuple[str, ...]) -> None:
    """Refuse a value that is none of these."""
    from fairsilo.run.choices import choose

    choose(option, value, names)


def positive(option: str, value: int) -> int:
    """Refuse less than one."""
    if value < 1:
        raise FairSiloError(f"{option} is {value}: give at least 1")
    return value


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Values with commas between them, each once, in order."""
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise FairSiloError(
            f"{option} {text!r} is not a list of numbers such as 0.01,0.1"
        ) from None
    if not all(0 <= value < float("inf") for value in values):
        raise FairSiloError(f"{option} {text!r}: every value must be at least 0 and finite")
    return tuple(sorted(set(values)))


def seeds_of(count: int) -> str:
    """How many, in words."""
    return f"{count} seed{'s' * (count > 1)}"


def print_table(frame: pd.DataFrame, title: str, columns: list[str] | None = None) -> None:
    """A table, with standard deviations where there are: one seed has none."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    # Without lines between the columns seven of them fit into 80 characters.
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE,
        padding=0,
        pad_edge=False,
    )
    spreads = {name for name in frame.columns if f"{name}_std" in frame.columns}
    shown = columns or [name for name in frame.columns if not str(name).endswith("_std")]
    for name in shown:
        breaks = "\n" if name in spreads else " "
        table.add_column(str(name).replace("_", breaks), no_wrap=name in (*spreads, *_WHOLE))
    for row in frame.to_dict("records"):
        cells = []
        for name in shown:
            value = row[name]
            text = str(value)
            if isinstance(value, bool):
                text = "yes" if value else "no"
            elif isinstance(value, float):
                text = "–" if value != value else f"{value:.3f}"  # noqa: PLR0124, RUF001
                if name in ("setting", "epsilon", "target") and value == value:  # noqa: PLR0124
                    text = f"{value:g}"
            elif value is None:
                text = "–"  # noqa: RUF001
            spread = row[f"{name}_std"] if name in spreads else None
            if spread == spread and spread is not None:  # noqa: PLR0124
                text += f"±{spread:.3f}"
            cells.append(text)
        table.add_row(*cells)
    Console().print(table)


def say(line: str) -> None:
    """Tell how far it is, beside the results."""
    print(line, file=sys.stderr, flush=True)
