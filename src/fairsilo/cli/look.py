"""What the person at the keyboard sees of `fairsilo data look`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairsilo.cli.flags import as_typed
from fairsilo.data.look import Look

MOST = 12
"""So many clients have a column of the table; the page has all."""


def show_look(found: Look, name: str) -> None:
    """Columns, groups by client, and what is wrong or suspicious."""
    console = Console()
    title = f"{name}: {found.rows:,} rows, {len(found.lines)} columns"
    table = Table(title=title, title_justify="left", title_style="bold")
    for head in ("column", "understood as", "values", "missing", "remark"):
        table.add_column(head, justify="right" if head == "missing" else "left")
    for one in found.lines:
        cells = (one.name, one.kind, one.values, f"{one.missing:,}", as_typed(one.remark))
        table.add_row(*map(Text, cells))
    console.print(table)
    if found.groups is not None:
        shown = found.groups.iloc[:, :MOST]
        groups = Table(title="groups by client", title_justify="left")
        for head in ("group", *map(str, shown.columns)):
            groups.add_column(head, justify="left" if head == "group" else "right")
        for group, counts in zip(shown.index, shown.to_numpy(), strict=True):
            groups.add_row(Text(str(group)), *(f"{count:,}" for count in counts))
        console.print(groups)
    for style, word, sentences in (
        ("bold red", "problem", found.problems), ("yellow", "look", found.suspicious),
    ):  # fmt: skip
        for sentence in sentences:
            console.print(Text(f"{word}: {as_typed(sentence)}", style=style), soft_wrap=True)
    if not found.problems:
        console.print("this table can be trained on", style="green")
