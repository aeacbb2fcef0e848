"""The page of a table as it was understood, made from what `fairsilo.data.look` found."""

from __future__ import annotations

from collections.abc import Sequence

from fairsilo.data.look import Look
from fairsilo.report.blocks import Column, bullets, page, section, table
from fairsilo.report.html import Child, Html
from fairsilo.report.text import plural


def look_page(name: str, found: Look) -> str:
    """One self-contained file; it has the names of columns and values, and no row."""
    sections = [*_said("What keeps it from being trained on", found.problems, "problems")]
    sections += _said("What may not be meant", found.suspicious, "suspicious")
    lines: list[list[Child]] = [
        [one.name, one.kind, one.values, one.missing, one.remark] for one in found.lines
    ]
    columns = [
        Column("Column"), Column("Understood as"), Column("Values"), Column("Missing", "count"),
        Column("Remark"),
    ]  # fmt: skip
    sections.append(section("Columns", table(columns, lines, dense=True), name="columns"))
    if found.groups is not None:
        heads = [Column("Group"), *(Column(str(one), "count") for one in found.groups.columns)]
        rows: list[list[Child]] = [
            [str(group), *map(int, counts)]
            for group, counts in zip(found.groups.index, found.groups.to_numpy(), strict=True)
        ]
        sections.append(section("Groups by client", table(heads, rows), name="groups"))
    verdict = (
        f"{plural(len(found.problems), 'problem')} to solve" if found.problems else "Can be trained"
    )
    return page(
        f"{name}: {verdict[:1].lower()}{verdict[1:]}",
        sections,
        lead=(
            f"{found.rows:,} rows and {plural(len(found.lines), 'column')}, as fairsilo train "
            "would read them."
        ),
        eyebrow="FairSilo \N{MIDDLE DOT} data",
    )


def _said(title: str, sentences: Sequence[str], name: str) -> list[Html]:
    if not sentences:
        return []
    told = [f"{one[:1].upper()}{one[1:]}." for one in sentences]
    return [section(title, bullets(told), name=name)]
