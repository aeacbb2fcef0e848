"""What the person at the keyboard sees of an audit, in simulation and over a network alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairsilo.cli.flags import as_typed
from fairsilo.cli.show import UNDEFINED, number, show_worth
from fairsilo.evaluate.intervals import FEWEST
from fairsilo.evaluate.rates import without_cells
from fairsilo.fairness import NOTIONS
from fairsilo.fairness.words import audit_spoken

Found = Mapping[str, Any]
KINDS = {
    "newcombe": "Newcombe", "bootstrap": "bootstrap", "normal": "normal", "chebyshev": "Chebyshev",
}  # fmt: skip
FEW = "too few rows"
RIGHT = ("rows", "rate", "gap", "loss")
MOST = 40
"""So many lines are printed; audit.json and audit.html have all."""


def show_audit(found: Found, folder: Path) -> None:
    """Cells, gaps in rates, gaps in losses, and where the files lie."""
    console, found = Console(), audit_spoken(found)
    show_worth(console, found)
    silos = f"{found['silos']} silo{'' if found['silos'] == 1 else 's'}"
    console.print(
        Text(f"{found['model']} on {found['rows']:,} rows of {silos} ({found['which']})", "bold"),
        soft_wrap=True,
    )
    level = f"{100 * found['level']:g}%"
    cells = _table("group", "class", "rows", "rate", f"{level} Wilson", "bootstrap", "loss")
    for c in found["cells"][:MOST]:
        cells.add_row(c["group"], c["class"], f"{c['rows']:,}", number(c["rate"], 3),
                      _span(c["wilson"]), _span(c["bootstrap"]), number(c["loss"], 3))  # fmt: skip
    console.print(cells)
    for title, key in (("rate gap (DEO)", "rate_gap"), ("loss gap (DGEO)", "loss_gap")):
        if key == "loss_gap" and all(c["loss"] is None for c in found["cells"]):
            continue  # there are no probabilities, which a note says
        table = _table(title, "in", "over", "gap", f"{level} interval", "method")
        for pair in found["pairs"][:MOST]:
            for line in _lines(pair, key):
                table.add_row(*line)
            table.add_section()
        console.print(table)
    if not NOTIONS[found["notion"]].within_classes:
        console.print(_by_notion(found, level))
    hidden = max(len(found["cells"]), len(found["pairs"])) - MOST
    if hidden > 0:
        console.print(f"the first {MOST} lines of each; {folder / 'audit.json'} has all")
    console.print(Text(found["certificate"]["statement"]), soft_wrap=True)
    for note in found["notes"]:
        console.print(Text(f"note: {as_typed(note)}", style="yellow"), soft_wrap=True)
    console.print(
        f"audit: {folder / 'audit.json'} (open {folder / 'audit.html'})",
        highlight=False,
        soft_wrap=True,
    )


def _by_notion(found: Found, level: str) -> Table:
    """The comparisons of a notion that is not about single classes."""
    table = _table("compared", "rows", "rates", "gap", f"{level} Newcombe")
    table.title, table.title_justify = found["notion"], "left"
    for one in found["rates"]["lines"][:MOST]:
        rates = f"{number(one['rate_a'], 3)} and {number(one['rate_b'], 3)}"
        rows = f"{one['rows_a']:,} and {one['rows_b']:,}"
        table.add_row(one["name"], rows, rates, number(one["gap"]), _span(one["newcombe"], 4))
    table.caption, table.caption_justify = without_cells(found["rates"]) or None, "left"
    return table


def _lines(pair: Found, key: str) -> Iterator[list[str]]:
    """Every estimate of a gap with each of its intervals; what repeats is left blank."""
    names = [f"{pair['a']} - {pair['b']}", pair["class"]]
    none = FEW if min(pair["rows_a"], pair["rows_b"]) < FEWEST else UNDEFINED
    for estimator, words in (("pooled", "all rows"), ("mean", "silos")):
        one = pair[key][estimator]
        start = [words, number(one["value"])]
        for kind, shown in KINDS.items():
            if kind in one:
                known = one["value"] is None or one[kind] is not None
                yield [*names, *start, _span(one[kind], 4) if known else none, shown]
                names, start = ["", ""], ["", ""]


def _table(*columns: str) -> Table:
    table = Table()
    for name in columns:
        # Cut off, two classes can read alike.
        table.add_column(name, justify="right" if name in RIGHT else "left", overflow="fold")
    return table


def _span(span: list[float] | None, digits: int = 3) -> str:
    return UNDEFINED if span is None else f"{span[0]:.{digits}f} to {span[1]:.{digits}f}"
