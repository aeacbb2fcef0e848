"""`fairsilo compare` and `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import as_typed
from fairsilo.cli.out import check_out
from fairsilo.cli.shared_options import Targets, takes
from fairsilo.cli.studies import (
    SOLVERS,
    STUDIED,
    Path_,
    Seeds,
    cell_of,
    command_of,
    known,
    numbers,
    print_table,
    say,
    seeds_of,
    tables_of,
)
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    import pandas as pd

    from fairsilo.experiment.grid import Cell
    from fairsilo.experiment.reproduce import Tables

ModelName = Annotated[str, typer.Option(help="lr, mlp (the paper's NN) or additive.")]
_FIGURES = ("accuracy", "fairness", "harmonic_mean", "balanced_accuracy")
LOCAL = ("local_epochs", "batch")
AIM = ("target_by", "target_confidence")
ASKED = (*STUDIED, "pairs")
EPSILONS = "1e-4,1e-3,0.01,0.1,0.2,0.4"


@takes((*ASKED, "target_deo", *AIM, *LOCAL), estimator=None)
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

    With --local-epochs or --batch FedAvg is there twice, once with them; with --target-deo FedFair,
    once trained to it, and Thresholds. Fairness is one minus the gap in rates of --notion.

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
    cell = cell_of({name: value for name, value in given.items() if name not in LOCAL}, model)
    known("solver", solver, SOLVERS if model != "additive" else ("fast",))
    folder = out or Path("runs") / f"compare-{cell.name}"
    check_out(folder)
    tables = tables_of(cell, given, seeds, validation=True)
    parts: dict[str, pd.DataFrame] = {}
    for method in (*METHODS, "constant"):
        why = refused(cell, method, tables.full[0])
        if why:
            say(f"{cell.name}: {TITLES[method]} is left out: {as_typed(why)}")
            continue
        count = len(settings(cell, method))
        say(f"{cell.name}: {TITLES[method]}" + (f", {count} settings" if count > 1 else ""))
        rows = part_rows(tables, method, solver, validation=True)
        parts[method] = without_lost(pd.DataFrame(rows), classes=tables.classes)
        if method == "fedavg" and work is not None:
            title = local_title(work)
            say(f"{cell.name}: {title}")
            rows = run_local(cell, work, tables.full)
            parts[title] = without_lost(pd.DataFrame(rows), classes=tables.classes)
    parts |= _to_target(cell, tables, solver)
    summary = compare_summary(parts)
    name = solver_of(solver, cell)[0].name
    shown = ["method", "chosen_on", "setting", *_FIGURES]
    print_table(summary, f"{cell.title}: {seeds_of(seeds)}, {name}", shown)
    for line in remarks(summary):
        print(line)
    write_atomic(folder / "compare.csv", as_csv(summary.drop(columns="trace")).encode())
    every = pd.concat([part.assign(method=name) for name, part in parts.items()])
    write_atomic(folder / "models.csv", every.drop(columns="trace").to_csv(index=False).encode())
    command = command_of("compare", given, model, seeds, solver)
    page = compare_page(cell, summary, parts, command, solver, seeds)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


@takes((*ASKED, *AIM), data="adult", estimator=None)
def sweep(
    given: dict[str, Any],
    method: Annotated[str, typer.Option(help="fedfair, lco, st, af; or thresholds.")] = "fedfair",
    epsilons: Annotated[
        str | None,
        typer.Option(help=f"Values of epsilon (tau for af), with commas; default {EPSILONS}."),
    ] = None,
    target_deo: Targets = None,
    model: ModelName = "lr",
    seeds: Seeds = 5,
    solver: Path_ = "fast",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default runs/sweep-...")
    ] = None,
) -> None:
    """Fairness and accuracy against epsilon (the paper's Figure 2), all values in one program.

    Or against targets in rates: fairsilo sweep --data adult --target-deo 0.01,0.02,0.05
    """
    import pandas as pd

    from fairsilo.data import write_atomic
    from fairsilo.experiment.cell import refused, run_aimed, run_method
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import home_of, solver_of
    from fairsilo.experiment.pages import sweep_page
    from fairsilo.experiment.publish import as_csv
    from fairsilo.experiment.summary import sweep_summary, words

    values, swept = _swept(epsilons, target_deo, given)
    told = {"target_deo": values[0]} if swept == "target" else {}
    able = ("thresholds",) if told else ()
    known("method", method, ("fedfair", "lco", "st", "af", *able))
    cell = cell_of({**given, **told}, model)
    known("solver", solver, SOLVERS if model != "additive" else ("fast",))
    folder = out or Path("runs") / f"sweep-{method}-{cell.name}"
    check_out(folder)
    tables = tables_of(cell, given, seeds, validation=False)
    why = refused(cell, method, tables.full[0], aimed=bool(told))
    if why:
        raise FairSiloError(why)
    count = f"{len(values)} settings" if len(values) > 1 else f"{swept} {values[0]:g}"
    say(f"{cell.name}: {method}, {count}, {seeds_of(seeds)}")
    solving = solver_of(home_of(solver, method), cell, method)
    if told:
        each = (run_aimed(cell, method, solving[0], tables.full, value) for value in values)
        rows = [row for found in each for row in found]
    else:
        rows = run_method(cell, method, values, solving, tables.full)
    models = without_lost(pd.DataFrame(rows), classes=tables.classes)
    summary = sweep_summary(models, method)
    ended = [words(*pair) for pair in zip(summary["ending"], summary["collapsed"], strict=True)]
    shown = [swept, *_FIGURES, "dgeo_pooled", "ending"]
    named = summary.rename(columns={"epsilon": swept})
    print_table(named.assign(ending=ended), f"{cell.title}: {method}, {seeds_of(seeds)}", shown)
    if summary["collapsed"].any():
        print("collapsed: balanced accuracy below 0.53, hardly more than one answer for everybody")
    write_atomic(folder / "sweep.csv", as_csv(named.drop(columns="trace")).encode())
    by = "--target-deo" if told else "--epsilons"
    call = f"sweep --method {method} {by} {','.join(f'{v:g}' for v in values)}"
    command = command_of(call, given, model, seeds, solver)
    page = sweep_page(cell, method, summary, command, solver, seeds, swept)
    write_atomic(folder / "report.html", page.encode())
    print(f"results: {folder} (open report.html)")


def _to_target(cell: Cell, tables: Tables, solver: str) -> dict[str, pd.DataFrame]:
    """The methods that take a target in rates, where there is one, by their titles."""
    import pandas as pd

    from fairsilo.experiment.cell import refused, run_aimed
    from fairsilo.experiment.endings import without_lost
    from fairsilo.experiment.grid import AIMED, aimed_title, solver_of

    target, parts = None if cell.own is None else cell.own.target_deo, {}
    if target is None:
        return {}
    for method in AIMED:
        title = aimed_title(method, target)
        if why := refused(cell, method, tables.full[0], aimed=True):
            say(f"{cell.name}: {title} is left out: {as_typed(why)}")
            continue
        say(f"{cell.name}: {title}")
        rows = run_aimed(cell, method, solver_of(solver, cell)[0], tables.full)
        parts[title] = without_lost(pd.DataFrame(rows), classes=tables.classes)
    return parts


def _swept(
    epsilons: str | None, targets: str | None, given: dict[str, Any]
) -> tuple[tuple[float, ...], str]:
    """The values that are swept, and whether they are limits on losses or targets in rates."""
    if targets is None:
        given_aim = [name for name in AIM if given[name] not in (None, "proxy")]
        if given_aim:
            raise FairSiloError(
                f"`{given_aim[0]}` is of targets in rates: give `target_deo`, such as 0.02,0.05"
            )
        return numbers("--epsilons", epsilons or EPSILONS), "epsilon"
    if epsilons is not None:
        raise FairSiloError("give --epsilons (of losses) or --target-deo (of rates), not both")
    from fairsilo.run.target_options import check_target

    values = numbers("--target-deo", targets)
    for value in values:
        check_target(value)
    return values, "target"
