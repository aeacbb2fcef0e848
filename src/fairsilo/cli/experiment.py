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
    from fairsilo.experiment.grid import TITLES, settings, solver_of
    from fairsilo.experiment.pages import compare_page
    from fairsilo.experiment.reproduce import Tables, part_rows
    from fairsilo.experiment.tables import best_setting

    cell = _cell(data, partition, model)
    _known("--solver", solver, ("fast", "agp"))
    tables = Tables(cell, data_dir, range(_positive("--seeds", seeds)))
    folder = out or Path("runs") / f"compare-{cell.name}"
    parts: dict[str, pd.DataFrame] = {}
    lines = []
    for method in (*cell.methods, "constant"):
        _say(f"{cell.name}: {TITLES[method]}, {len(settings(cell, method))} settings")
        part = pd.DataFrame(part_rows(tables, method, solver, validation=True))
        parts[method] = part
        choices = ("test", "validation") if len(settings(cell, method)) > 1 else ("test",)
        for selection in choices:
            setting = best_setting(part, selection)
            chosen = part[(part["split"] == "test") & (part["setting"] == setting)]
            shown = setting if len(settings(cell, method)) > 1 else None
            lines.append(
                {
                    "method": TITLES[method],
                    "chosen_on": selection if len(choices) > 1 else None,
                    "setting": shown,
                    **_mean_std(chosen, ("accuracy", "fairness", "harmonic_mean")),
                    "balanced_accuracy": chosen["balanced_accuracy"].mean(),
                }
            )
    summary = pd.DataFrame(lines)
    _print(summary, f"{cell.title}: {seeds} seeds, {solver_of(solver, cell)[0].name}")
    parts.pop("constant")
    write_atomic(folder / "compare.csv", summary.to_csv(index=False).encode())
    every = pd.concat([part.assign(method=name) for name, part in parts.items()])
    write_atomic(folder / "models.csv", every.to_csv(index=False).encode())
    page = compare_page(f"{cell.title}: all methods", summary, parts)
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
    from fairsilo.experiment.grid import solver_of
    from fairsilo.experiment.pages import sweep_page
    from fairsilo.experiment.reproduce import Tables

    cell = _cell(data, partition, model)
    _known("--solver", solver, ("fast", "agp"))
    _known("--method", method, ("fedfair", "lco", "st", "af"))
    if method not in cell.methods:
        raise FairSiloError(f"--method {method} does not go with --model {model}: use --model lr")
    values = _numbers(epsilons)
    tables = Tables(cell, data_dir, range(_positive("--seeds", seeds)))
    _say(f"{cell.name}: {method}, {len(values)} settings, {seeds} seeds")
    rows = run_method(cell, method, values, solver_of(solver, cell, method), tables.full)
    frame = pd.DataFrame(rows)
    lines = [
        {
            "epsilon": value,
            **_mean_std(part, ("accuracy", "fairness", "harmonic_mean", "dgeo_pooled")),
            "balanced_accuracy": part["balanced_accuracy"].mean(),
            "converged": bool((part["status"] == "converged").all()),
        }
        for value, part in frame.groupby("setting")
    ]
    summary = pd.DataFrame(lines)
    _print(summary, f"{cell.title}: {method}, {seeds} seeds")
    folder = out or Path("runs") / f"sweep-{method}-{cell.name}"
    write_atomic(folder / "sweep.csv", summary.to_csv(index=False).encode())
    page = sweep_page(f"{cell.title}: {method} against epsilon", summary)
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

    _known("--solver", solver, ("fast", "agp"))
    cells = [find(name) for name in only] if only else CELLS
    results = Results(out)
    started = time.monotonic()

    def say(what: str, done: int, total: int, left: float) -> None:
        remaining = f", about {left / 60:.0f} min left" if left >= 0 else ""
        _say(f"[{done + 1}/{total}] {what}{remaining}")

    try:
        computed = run_parts(results, cells, solver, data_dir, say, validation)
    except KeyboardInterrupt:
        _say("stopped: what is finished is kept, and the same command goes on from there")
        os._exit(130)  # other threads are inside long computations; files are written whole
    _say("tables, figures and theorems")
    found = publish(results, solver, theorems=not only)
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
    _known("--partition", partition, ("iid", "skewed"))
    _known("--model", model, ("lr", "mlp"))
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


def _mean_std(part: pd.DataFrame, names: tuple[str, ...]) -> dict[str, float]:
    return {
        key: value
        for name in names
        for key, value in (
            (name, float(part[name].mean())),
            (f"{name}_std", float(part[name].std(ddof=0))),
        )
    }


def _print(frame: pd.DataFrame, title: str) -> None:
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
    shown = [name for name in frame.columns if not str(name).endswith("_std")]
    for name in shown:
        table.add_column(str(name).replace("_", " "), no_wrap=name in spreads)
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
