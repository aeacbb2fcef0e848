"""`fairsilo diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fairsilo.cli.shared_options import DataDir

Found = Mapping[str, Any]
SIGNS = (
    "a gap is the first group minus the second, so that a change of it brings the groups closer or "
    "not by its sign: the gaps of both runs stand above; p is not corrected for the number of lines"
)


def diff(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders; the others are compared with the first.")
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Where their data are now; of runs over a network: test rows. Default: of that "
            "name, here."
        ),
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[Path | None, typer.Option(help="Also write a page, such as diff.html.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print all that is known, and nothing else.")
    ] = False,
) -> None:
    """Show runs side by side: settings that differ, figures, changes on the same test rows.

    Paired tests read the data again, because a run folder holds no rows.
    """
    from json import dumps

    from fairsilo.auditor.diff import diff as side_by_side
    from fairsilo.cli.flags import as_typed
    from fairsilo.cli.out import check_file
    from fairsilo.data import write_atomic
    from fairsilo.report.diff import diff_page

    if out is not None:
        check_file(out)
    found = side_by_side(runs, data, data_dir)
    found["notes"] = [as_typed(one) for one in found["notes"]]
    if out is not None:
        write_atomic(out, diff_page(found).encode())
    if json:
        print(dumps(found, indent=2, allow_nan=False))
        return
    _show(found)
    if out is not None:
        print(f"page: {out}")


def _show(found: Found) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if found["settings"]:
        console.print(_settings(found))
    else:
        console.print("the runs have the same settings")
    console.print(_figures(found["runs"]))
    for one in found["paired"]:
        console.print(_paired(one))
    if found["paired"]:
        console.print(SIGNS, style="dim", highlight=False, soft_wrap=True)
    for note in found["notes"]:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def _table(title: str, heads: Sequence[str]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for k, head in enumerate(heads):
        table.add_column(head, justify="right" if k else "left")
    return table


def _settings(found: Found) -> Any:
    from fairsilo.report.diff import value_of

    table = _table("settings that differ", ["", *(one["name"] for one in found["runs"])])
    for name, each in found["settings"].items():
        flag = f"--{name.replace('_', '-')}" if " " not in name and name != "fairsilo" else name
        table.add_row(flag, *(value_of(name, one) for one in each))
    return table


def _figures(runs: Sequence[Found]) -> Any:
    from fairsilo.report.diff import FIGURES

    table = _table("test rows (95% intervals)", ["", *(one["name"] for one in runs)])
    for key, title in FIGURES.items():
        table.add_row(
            title.lower().replace("auc", "AUC"), *(_told(one["figures"][key]) for one in runs)
        )
    for name in dict.fromkeys(pair["name"] for one in runs for pair in one["pairs"]):
        for kind, what in (("rate", "rates"), ("loss", "losses")):
            each = [{pair["name"]: pair[kind] for pair in one["pairs"]}.get(name) for one in runs]
            table.add_row(f"{what}, {name}", *(_told(one) for one in each))
    return table


def _paired(one: Found) -> Any:
    from fairsilo.report.diff import chance, changes_of, weighed

    title = f"{one['run']!r} minus {one['against']!r}, on the same {one['rows']:,} test rows"
    title += weighed(one)
    table = _table(title, ["", "change", "95% interval", "p"])
    for what, change, _ in changes_of(one):
        if change is not None:
            low, high = change["interval"]
            span = f"{low:+.4f} to {high:+.4f}"
            table.add_row(what, f"{change['change']:+.4f}", span, chance(change["p"]))
    return table


def _told(one: Found | None) -> str:
    from fairsilo.cli.show import UNDEFINED

    if one is None or one["value"] is None:
        return UNDEFINED
    span = one["interval"]
    return f"{one['value']:.4f}" + ("" if span is None else f" ({span[0]:.3f} to {span[1]:.3f})")
