"""`fairsilo compare`, `sweep` and `reproduce`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    import pandas as pd

Data = Annotated[str, typer.Option(help="adult, compas or drug.")]
Partition = Annotated[str, typer.Option(help="iid or skewed (the paper's non-IID).")]
ModelName = Annotated[str, typer.Option(help="lr or mlp (the paper's NN).")]
Seeds = Annotated[int, typer.Option(help="How many random data sets (seeds 0, 1, ...).")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with the raw files of compas and drug.", envvar="FAIRSILO_DATA"),
]
_FIGURES = ("accuracy", "fairness", "harmonic_mean", "balanced_accuracy")
_WHOLE = ("method", "chosen_on")
Path_ = Annotated[str, typer.Option("--solver", help="fast (Newton, L-BFGS) or agp (the paper's).")]


def compare(
    data: Data,
    partition: Partition = "iid",
    model: ModelName = "lr",
    seeds: Seeds = 5,
    solver: Path_ = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default runs/compare-...")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """All methods of the paper and the constant predictor side by side, over seeds."""
    import pandas as pd

    from fairsilo.data import write_atomic
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import METHODS, TITLES, settings, solver_of
    from fairsilo.experiment.pages import compare_page
    from fairsilo.experiment.reproduce import Tables, as_csv, part_rows
    from fairsilo.experiment.summary import compare_summary, remarks

    cell = _cell(data, partition, model)
    _known("solver", solver, ("fast", "agp"))
    tables = Tables(cell, data_dir, range(_positive("--seeds", seeds)))
    folder = out or Path("runs") / f"compare-{cell.name}"
    parts: dict[str, pd.DataFrame] = {}
    for method in METHODS:
        if method not in cell.methods:
            _say(f"{cell.name}: {TITLES[method]} is left out: it needs --model lr")
    for method in (*cell.methods, "constant"):
        count = len(settings(cell, method))
        _say(f"{cell.name}: {TITLES[method]}" + (f", {count} settings" if count > 1 else ""))
        rows = part_rows(tables, method, solver, validation=True)
        parts[method] = without_lost(pd.DataFrame(rows))
    summary = compare_summary(parts)
    name = solver_of(solver, cell)[0].name
    shown = ["method", "chosen_on", "setting", *_FIGURES]
    _print(summary, f"{cell.title}: {_seeds(seeds)}, {name}", shown)
    for line in remarks(summary):
        print(line)
    write_atomic(folder / "compare.csv", as_csv(summary.drop(columns="trace")).encode())
    every = pd.concat([part.assign(method=name) for name, part in parts.items()])
    write_atomic(folder / "models.csv", every.drop(columns="trace").to_csv(index=False).encode())
    command = (
        f"fairsilo compare --data {data} --partition {partition} --model {model} "
        f"--seeds {seeds} --solver {solver}"
    )
    page = compare_page(cell, summary, parts, command, solver, seeds)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


def sweep(
    data: Data = "adult",
    method: Annotated[str, typer.Option(help="fedfair, lco, st or af.")] = "fedfair",
    epsilons: Annotated[
        str, typer.Option(help="Values of epsilon (tau for af), with commas between.")
    ] = "1e-4,1e-3,0.01,0.1,0.2,0.4",
    partition: Partition = "iid",
    model: ModelName = "lr",
    seeds: Seeds = 5,
    solver: Path_ = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default runs/sweep-...")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Fairness and accuracy against epsilon (the paper's Figure 2), all values in one program."""
    import pandas as pd

    from fairsilo.data import write_atomic
    from fairsilo.experiment.cell import run_method
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import home_of, solver_of
    from fairsilo.experiment.pages import sweep_page
    from fairsilo.experiment.reproduce import Tables, as_csv
    from fairsilo.experiment.summary import sweep_summary, words

    cell = _cell(data, partition, model)
    _known("solver", solver, ("fast", "agp"))
    _known("method", method, ("fedfair", "lco", "st", "af"))
    if method not in cell.methods:
        raise FairSiloError(f"--method {method} does not go with --model {model}: use --model lr")
    values = _numbers(epsilons)
    tables = Tables(cell, data_dir, range(_positive("--seeds", seeds)))
    count = f"{len(values)} settings" if len(values) > 1 else f"epsilon {values[0]:g}"
    _say(f"{cell.name}: {method}, {count}, {_seeds(seeds)}")
    solving = solver_of(home_of(solver, method), cell, method)
    rows = run_method(cell, method, values, solving, tables.full)
    summary = sweep_summary(without_lost(pd.DataFrame(rows)), method)
    ended = [words(*pair) for pair in zip(summary["ending"], summary["collapsed"], strict=True)]
    shown = ["epsilon", *_FIGURES, "dgeo_pooled", "ending"]
    _print(summary.assign(ending=ended), f"{cell.title}: {method}, {_seeds(seeds)}", shown)
    if summary["collapsed"].any():
        print("collapsed: balanced accuracy below 0.53, hardly more than one answer for everybody")
    folder = out or Path("runs") / f"sweep-{method}-{cell.name}"
    write_atomic(folder / "sweep.csv", as_csv(summary.drop(columns="trace")).encode())
    command = (
        f"fairsilo sweep --method {method} --epsilons {','.join(f'{v:g}' for v in values)} "
        f"--data {data} --partition {partition} --model {model} --seeds {seeds} --solver {solver}"
    )
    page = sweep_page(cell, method, summary, command, solver, seeds)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this part, such as adult-lr-iid; may be given several times."),
    ] = None,
    solver: Path_ = "fast",
    validation: Annotated[
        bool, typer.Option(help="Also choose settings honestly, on validation rows.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "experiments/results"
    ),
    data_dir: DataDir = None,
) -> None:
    """The whole paper: both tables, both figures, the theorems. Finished parts are kept."""
    from fairsilo.experiment.figures import draw_all
    from fairsilo.experiment.grid import CELLS, find
    from fairsilo.experiment.reproduce import publish, run_parts
    from fairsilo.experiment.results import Results

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
        + ([f"--solver {solver}"] if solver != "fast" else [])
        + ([] if validation else ["--no-validation"])
    )
    try:
        computed = run_parts(results, cells, solver, data_dir, say, validation, not only)
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


def _cell(data: str, partition: str, model: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from fairsilo.data.datasets import find as find_data
    from fairsilo.experiment.grid import find

    find_data(data)
    _known("partition", partition, ("iid", "skewed"))
    _known("model", model, ("lr", "mlp"))
    setting = "iid" if partition == "iid" else "non-iid"
    return find(f"{data}-{'lr' if model == 'lr' else 'nn'}-{setting}")


def _known(option: str, value: str, known: tuple[str, ...]) -> None:
    from fairsilo.run.options import choose

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


def _print(frame: pd.DataFrame, title: str, columns: list[str] | None = None) -> None:
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
            if name in spreads:
                text += f"±{row[f'{name}_std']:.3f}"
            cells.append(text)
        table.add_row(*cells)
    Console().print(table)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
