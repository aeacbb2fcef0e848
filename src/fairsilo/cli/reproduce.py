"""`fairsilo reproduce`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import as_typed, warnings_as_typed
from fairsilo.cli.out import check_out
from fairsilo.cli.shared_options import takes, typed
from fairsilo.cli.studies import (
    SOLVERS,
    STUDIED,
    Path_,
    Seeds,
    cell_of,
    known,
    positive,
    print_table,
    say,
)
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairsilo.experiment.grid import Cell

PAPERS = ("paper", "near_paper")
"""What is said of the paper's cells only."""


@takes(STUDIED, data=None, estimator=None)
def reproduce(
    given: dict[str, Any],
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
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; default experiments/results, of own data "
            "runs/reproduce-..."
        ),
    ] = None,
) -> None:
    """The whole paper: both tables, both figures, the theorems. Finished parts are kept.

    Or the same study of an own table: fairsilo reproduce --data loans.csv --label income
    --protected-class ">50K" --group sex --groups Female,Male --client bank
    """
    from fairsilo.experiment.figures import draw_all
    from fairsilo.experiment.grid import CELLS, TITLES, find
    from fairsilo.experiment.publish import publish
    from fairsilo.experiment.reproduce import run_parts
    from fairsilo.experiment.results import Results

    known("solver", solver, SOLVERS)
    positive("--seeds", seeds)
    for name in method or ():
        known("method", name, tuple(TITLES))
    own = given["data"] is not None
    if own:
        folder = out or Path("runs") / f"reproduce-{Path(given['data']).stem}"
        _check_folder(folder, Path(given["data"]))
        whole = _own_cells(given, only or (), method or (), seeds, validation)
    else:
        _refuse_without_data(given)
        whole = CELLS
        folder = out or Path("experiments/results")
    cells = whole if own or not only else tuple(find(name) for name in only)
    results = Results(folder, whole)
    started = time.monotonic()

    def told(what: str, done: int, total: int, left: float) -> None:
        remaining = f", about {left / 60:.0f} min left" if left >= 0 else ""
        say(f"[{done + 1}/{total}] {what}{remaining}")

    command = " ".join(
        ["fairsilo reproduce", *typed({**given, "data_dir": None}, estimator=None)]
        + [f"--only {name}" for name in only or ()]
        + [f"--method {name}" for name in method or ()]
        + ([f"--solver {solver}"] if solver != "fast" else [])
        + ([] if validation else ["--no-validation"])
        + ([f"--seeds {seeds}"] if seeds != 5 else [])
        + (["--cv"] if cv else [])
    )
    theorems = not only and not method and not own
    try:
        computed = run_parts(
            results, cells, solver, given["data_dir"], told, validation, theorems, seeds, cv,
            method or (),
        )  # fmt: skip
    except KeyboardInterrupt:
        say("stopped: what is finished is kept, and the same command goes on from there")
        os._exit(130)  # other threads are inside long computations; files are written whole
    if computed:
        results.record(solver, command, computed, time.monotonic() - started)
    say("tables and figures")
    found = publish(results, solver)
    if not own:
        for path in draw_all(results, solver):
            say(str(path))
    beside = "" if own else " and against the paper"
    for name, verdict in found:
        if len(verdict):
            told_of = verdict.drop(columns=[*PAPERS]) if own else verdict
            print_table(told_of, f"FedFair against the rest{beside} ({name})")
    minutes = (time.monotonic() - started) / 60
    print(f"{computed} parts computed in {minutes:.1f} min; results: {folder} (open report.html)")


def _own_cells(
    given: dict[str, Any],
    only: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    validation: bool,
) -> tuple[Cell, ...]:
    """The table by logistic regression and by a network; who cannot take it is left out."""
    from fairsilo.experiment.own import studied

    stem = Path(given["data"]).stem
    models = {f"{stem}-lr": "lr", f"{stem}-nn": "mlp"}
    for name in only:
        known("only", name, tuple(models))
    cells = []
    for name, model in models.items():
        if only and name not in only:
            continue
        # Layers are a network's.
        cell = cell_of({**given, "hidden": given["hidden"] if model == "mlp" else None}, model)
        if cell.own is None:
            raise FairSiloError(
                f"--data {given['data']} is one of the paper's, as it stands: use --only "
                f"{cell.name}, or say what is different, such as --clients 7"
            )
        with warnings_as_typed():
            whole, why = studied(cell, seeds, validation)
        for method, text in why.items():
            say(f"{cell.name}: {method} is left out: {as_typed(text)}")
        if methods and set(methods) <= set(why):
            raise FairSiloError(why[methods[0]])
        cells.append(whole)
    return tuple(cells)


def _check_folder(folder: Path, data: Path) -> None:
    """Refuse a folder with results of something else, whose tables would be written over."""
    check_out(folder)
    found = {one.name for one in (folder / "parts").glob("*/*") if one.is_dir()}
    others = found - {f"{data.stem}-lr", f"{data.stem}-nn"}
    if others:
        raise FairSiloError(
            f"--out {folder} has results of {min(others)}: give another folder for {data.name}"
        )


def _refuse_without_data(given: dict[str, Any]) -> None:
    """Refuse options about an own table where there is none: the paper's are what they are."""
    told = typed({**given, "data_dir": None}, estimator=None)
    if told:
        raise FairSiloError(
            f"{told[0].split()[0]} is for an own table and the paper's are as they are: give "
            "--data, such as loans.csv, or leave it out"
        )
