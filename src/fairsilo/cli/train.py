"""`fairsilo train`."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from fairsilo.cli.failures import RUNS, checked_failures, run_failures, stop_on
from fairsilo.cli.out import check_out
from fairsilo.cli.shared_options import HOW, OPTIONS, OUT, options_from, takes


@takes(OPTIONS)
def train(
    given: dict[str, Any],
    baseline: Annotated[
        bool,
        typer.Option(help="Also train without the constraint, to compare.", rich_help_panel=HOW),
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; default runs/DATA-METHOD, overwritten.",
            rich_help_panel=OUT,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Show the rounds on a page for this machine's browser, until Control-C.",
            rich_help_panel=OUT,
        ),
    ] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(
            help="Also log to this MLflow store, such as sqlite:///mlflow.db or http://...",
            rich_help_panel=OUT,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print metrics.json and nothing else.", rich_help_panel=OUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", help="Print where the results lie, and warnings.", rich_help_panel=OUT
        ),
    ] = False,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="Exit with 3, once all is written, if the run is one of these: missed (its limit, "
            "on training rows), not-converged, collapsed (or hardly better).",
            rich_help_panel=OUT,
        ),
    ] = None,
) -> None:
    """Train a classifier across clients, fair between groups, and write a run folder.

    Own data: fairsilo train --data loans.csv --label income --protected-class ">50K" --group sex
    --groups Female,Male --client bank --split part --epsilon 0.05 --out runs/loans
    """
    from fairsilo.cli.show import Rounds, show_run, warn_of
    from fairsilo.cli.watched import Told
    from fairsilo.run import execute, save
    from fairsilo.run.track import open_store

    started = time.monotonic()
    options = options_from(given)
    data, method = Path(options.data), options.method
    folder = out or Path("runs") / f"{data.stem}-{method}"
    check_out(folder)
    wanted = () if fail_on is None else checked_failures(fail_on, RUNS)
    tracked = None if mlflow is None else open_store(mlflow)
    with Told(folder, options) if watch else nullcontext() as told:
        with Rounds(f"training {method} on {data.name}", quiet or json) as progress:
            watched = told.also(progress.watch) if told else progress.watch
            run = execute(options, watched, baseline, progress.beside)
        files = save(run, folder)
        if json or quiet:
            warn_of(run.metrics)
        if json:
            print((folder / "metrics.json").read_text(), end="")
        elif quiet:
            print(folder)
        else:
            show_run(run, folder, time.monotonic() - started)
        if tracked is not None:
            logged = tracked.log(run, files)
            print(f"MLflow: {mlflow}, run {logged}", file=sys.stderr if json or quiet else None)
        if told:
            told.stay(run)
    stop_on(wanted, run_failures(run) if wanted else [], "run")
