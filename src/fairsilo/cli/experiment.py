"""`fairsilo compare`, `sweep` and `reproduce`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import as_typed, warnings_as_typed
from fairsilo.cli.out import check_out
from fairsilo.cli.shared_options import TABLE, DataDir, options_from, takes, typed
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    import pandas as pd

    from fairsilo.experiment.grid import Cell
    from fairsilo.experiment.reproduce import Tables

ModelName = Annotated[str, typer.Option(help="lr or mlp (the paper's NN).")]
Seeds = Annotated[int, typer.Option(help="How many random data sets (seeds 0, 1, ...).")]
_FIGURES = ("accuracy", "fairness", "harmonic_mean", "balanced_accuracy")
LOCAL = ("local_epochs", "batch")
_WHOLE = ("method", "chosen_on")
Path_ = Annotated[str, typer.Option("--solver", help="fast (Newton, L-BFGS) or agp (the paper's).")]


@takes((*TABLE, *LOCAL))
def compare(
    given: dict[str, Any],
    model: ModelName = "lr",
    seeds: Seeds = 5,
    solver: Path_ = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default runs/compare-...")
    ] = None,
) -> None:
    """All methods of the paper and the constant predictor side by side, over seeds.

    With --local-epochs or --batch FedAvg is there twice, once with them.

    Own data: fairsilo compare --data loans.csv --label income --protected-class ">50K"
    --group sex --groups Female,Male --client bank
    """
    import pandas as pd

    from fairsilo.data import write_atomic
    from fairsilo.experiment.cell import refused, run_local
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import METHODS, TITLES, local_title, settings, solver_of
    from fairsilo.experiment.pages import compare_page
    from fairsilo.experiment.publish import as_csv
    from fairsilo.experiment.reproduce import part_rows
    from fairsilo.experiment.summary import compare_summary, remarks
    from fairsilo.run import Options
    from fairsilo.run.local_options import work_of

    local = {name: given[name] for name in LOCAL}
    work = work_of(Options(data="", method="fedavg", **local))
    cell = _cell({name: given[name] for name in TABLE}, model)
    _known("solver", solver, ("fast", "agp"))
    folder = out or Path("runs") / f"compare-{cell.name}"
    check_out(folder)
    tables = _tables(cell, given, seeds, validation=True)
    parts: dict[str, pd.DataFrame] = {}
    for method in (*METHODS, "constant"):
        why = refused(cell, method, tables.full[0])
        if why:
            _say(f"{cell.name}: {TITLES[method]} is left out: {as_typed(why)}")
            continue
        count = len(settings(cell, method))
        _say(f"{cell.name}: {TITLES[method]}" + (f", {count} settings" if count > 1 else ""))
        rows = part_rows(tables, method, solver, validation=True)
        parts[method] = without_lost(pd.DataFrame(rows), classes=tables.classes)
        if method == "fedavg" and work is not None:
            title = local_title(work)
            _say(f"{cell.name}: {title}")
            rows = run_local(cell, work, tables.full)
            parts[title] = without_lost(pd.DataFrame(rows), classes=tables.classes)
    summary = compare_summary(parts)
    name = solver_of(solver, cell)[0].name
    shown = ["method", "chosen_on", "setting", *_FIGURES]
    _print(summary, f"{cell.title}: {_seeds(seeds)}, {name}", shown, seeds > 1)
    for line in remarks(summary):
        print(line)
    write_atomic(folder / "compare.csv", as_csv(summary.drop(columns="trace")).encode())
    every = pd.concat([part.assign(method=name) for name, part in parts.items()])
    write_atomic(folder / "models.csv", every.drop(columns="trace").to_csv(index=False).encode())
    command = _command("compare", given, model, seeds, solver)
    page = compare_page(cell, summary, parts, command, solver, seeds)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


@takes(TABLE, data="adult")
def sweep(
    given: dict[str, Any],
    method: Annotated[str, typer.Option(help="fedfair, lco, st or af.")] = "fedfair",
    epsilons: Annotated[
        str, typer.Option(help="Values of epsilon (tau for af), with commas between.")
    ] = "1e-4,1e-3,0.01,0.1,0.2,0.4",
    model: ModelName = "lr",
    seeds: Seeds = 5,
    solver: Path_ = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default runs/sweep-...")
    ] = None,
) -> None:
    """Fairness and accuracy against epsilon (the paper's Figure 2), all values in one program."""
    import pandas as pd

    from fairsilo.data import write_atomic
    from fairsilo.experiment.cell import refused, run_method
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import home_of, solver_of
    from fairsilo.experiment.pages import sweep_page
    from fairsilo.experiment.publish import as_csv
    from fairsilo.experiment.summary import sweep_summary, words

    cell = _cell(given, model)
    _known("solver", solver, ("fast", "agp"))
    _known("method", method, ("fedfair", "lco", "st", "af"))
    values = _numbers(epsilons)
    folder = out or Path("runs") / f"sweep-{method}-{cell.name}"
    check_out(folder)
    tables = _tables(cell, given, seeds, validation=False)
    why = refused(cell, method, tables.full[0])
    if why:
        raise FairSiloError(why)
    count = f"{len(values)} settings" if len(values) > 1 else f"epsilon {values[0]:g}"
    _say(f"{cell.name}: {method}, {count}, {_seeds(seeds)}")
    solving = solver_of(home_of(solver, method), cell, method)
    rows = run_method(cell, method, values, solving, tables.full)
    models = without_lost(pd.DataFrame(rows), classes=tables.classes)
    summary = sweep_summary(models, method)
    ended = [words(*pair) for pair in zip(summary["ending"], summary["collapsed"], strict=True)]
    shown = ["epsilon", *_FIGURES, "dgeo_pooled", "ending"]
    _print(
        summary.assign(ending=ended), f"{cell.title}: {method}, {_seeds(seeds)}", shown, seeds > 1
    )
    if summary["collapsed"].any():
        print("collapsed: balanced accuracy below 0.53, hardly more than one answer for everybody")
    write_atomic(folder / "sweep.csv", as_csv(summary.drop(columns="trace")).encode())
    named = f"sweep --method {method} --epsilons {','.join(f'{v:g}' for v in values)}"
    command = _command(named, given, model, seeds, solver)
    page = sweep_page(cell, method, summary, command, solver, seeds)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this part, such as adult-lr-iid; may be given several times."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only this method, such as lco; may be given several times."),
    ] = None,
    solver: Path_ = "fast",
    validation: Annotated[
        bool, typer.Option(help="Also choose settings honestly, on validation rows.")
    ] = True,
    seeds: Seeds = 5,
    cv: Annotated[
        bool,
        typer.Option(
            "--cv", help="Also choose by five-fold cross-validation (logistic regression, 5 seeds)."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "experiments/results"
    ),
    data_dir: DataDir = None,
    data: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """The whole paper: both tables, both figures, the theorems. Finished parts are kept."""
    from fairsilo.experiment.figures import draw_all
    from fairsilo.experiment.grid import CELLS, METHODS, find
    from fairsilo.experiment.publish import publish
    from fairsilo.experiment.reproduce import run_parts
    from fairsilo.experiment.results import Results

    if data is not None:
        raise FairSiloError(
            f"`reproduce` computes the paper's own tables: for {data} use `fairsilo compare --data "
            f"{data}` or `fairsilo sweep --data {data}`"
        )
    _known("solver", solver, ("fast", "agp"))
    cells = [find(name) for name in only] if only else CELLS
    results = Results(out)
    started = time.monotonic()

    def say(what: str, done: int, total: int, left: float) -> None:
        remaining = f", about {left / 60:.0f} min left" if left >= 0 else ""
        _say(f"[{done + 1}/{total}] {what}{remaining}")

    command = " ".join(
        ["fairsilo reproduce"]
        + [f"--only {name}" for name in only or ()]
        + [f"--method {name}" for name in method or ()]
        + ([f"--solver {solver}"] if solver != "fast" else [])
        + ([] if validation else ["--no-validation"])
        + ([f"--seeds {seeds}"] if seeds != 5 else [])
        + (["--cv"] if cv else [])
    )
    _positive("--seeds", seeds)
    for name in method or ():
        _known("method", name, (*METHODS, "constant"))
    try:
        whole = not only and not method
        computed = run_parts(
            results, cells, solver, data_dir, say, validation, whole, seeds, cv, method or ()
        )
    except KeyboardInterrupt:
        _say("stopped: what is finished is kept, and the same command goes on from there")
        os._exit(130)  # other threads are inside long computations; files are written whole
    if computed:
        results.record(solver, command, computed, time.monotonic() - started)
    _say("tables and figures")
    found = publish(results, solver)
    for path in draw_all(results, solver):
        _say(str(path))
    for name, verdict in found:
        if len(verdict):
            _print(verdict, f"FedFair against the rest and against the paper ({name})")
    minutes = (time.monotonic() - started) / 60
    print(f"{computed} parts computed in {minutes:.1f} min; results: {out} (open report.html)")


def _cell(given: dict[str, Any], model: str) -> Cell:
    """The paper's, where nothing is said but its own options; else one of the given table."""
    from fairsilo.data import DATASETS
    from fairsilo.experiment.grid import Cell, find

    _known("model", model, ("lr", "mlp"))
    options = options_from(given)
    name = "lr" if model == "lr" else "nn"
    said = {word.split()[0] for word in typed(given)}
    partition = options.partition
    paper = options.data in DATASETS and not said - {"--data", "--partition", "--data-dir"}
    if not paper or partition not in ("iid", "skewed"):
        return Cell(options.data, name, "own", options)
    return find(f"{options.data}-{name}-{'iid' if partition == 'iid' else 'non-iid'}")


def _tables(cell: Cell, given: dict[str, Any], seeds: int, validation: bool) -> Tables:
    """The rows of every seed, read and checked."""
    from fairsilo.experiment.cell import check_measurable
    from fairsilo.experiment.reproduce import Tables

    tables = Tables(cell, given["data_dir"], range(_positive("--seeds", seeds)))
    with warnings_as_typed():
        tables.prepare(validation)
    check_measurable([*tables.full, *(tables.held if validation else ())])
    return tables


def _command(name: str, given: dict[str, Any], model: str, seeds: int, solver: str) -> str:
    """What was typed, without the folder of this machine's files."""
    said = typed({**given, "data_dir": None})
    own = [f"--model {model} --seeds {seeds} --solver {solver}"]
    return " ".join([f"fairsilo {name}", *said, *own])


def _known(option: str, value: str, known: tuple[str, ...]) -> None:
    from fairsilo.run.choices import choose

    choose(option, value, known)


def _positive(option: str, value: int) -> int:
    if value < 1:
        raise FairSiloError(f"{option} is {value}: give at least 1")
    return value


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise FairSiloError(
            f"--epsilons {text!r} is not a list of numbers such as 0.01,0.1"
        ) from None
    if not all(0 <= value < float("inf") for value in values):
        raise FairSiloError(f"--epsilons {text!r}: every value must be at least 0 and finite")
    return tuple(sorted(set(values)))


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"


def _print(
    frame: pd.DataFrame, title: str, columns: list[str] | None = None, spread: bool = True
) -> None:
    """A table; `spread`: with standard deviations, which one seed does not have."""
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
                if name in ("setting", "epsilon") and value == value:  # noqa: PLR0124
                    text = f"{value:g}"
            elif value is None:
                text = "–"  # noqa: RUF001
            if spread and name in spreads:
                text += f"±{row[f'{name}_std']:.3f}"
            cells.append(text)
        table.add_row(*cells)
    Console().print(table)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
