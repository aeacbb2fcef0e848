"""Building blocks of a page: the page itself, sections, tables, cards, notes.

    page("Comparison", [section("Results", table(columns, rows))], lead="Seven methods ...")

Blocks are `Html`; plain strings given to them are text and get escaped.
"""

import base64
import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from fairsilo import __version__
from fairsilo.report.html import Child, Html, el, join
from fairsilo.report.text import UNDEFINED, count, number, percent, size

Kind = Literal["text", "figure", "number", "signed", "percent", "points", "count", "size"]


@dataclass(frozen=True)
class Column:
    """A table column: its title, how its values are written, and why one may be missing.

    `figure` is text set like a number; `points` is a signed difference of rates.
    """

    title: str
    kind: Kind = "text"
    digits: int = 3
    why: str = UNDEFINED
    help: str | None = None


def table(
    columns: Sequence[Column | str],
    rows: Sequence[Sequence[Child]],
    *,
    caption: str | None = None,
    sortable: bool = True,
    dense: bool = False,
) -> Html:
    """A table whose first column names the row. Cells: numbers, text, or `Html` as it is.

    `dense` uses smaller type, for many columns.
    """
    described = [Column(c) if isinstance(c, str) else c for c in columns]
    head = [el("th", c.title, scope="col", class_=_align(c), title=c.help) for c in described]
    body = [
        el(
            "tr",
            *(
                _cell(value, column, first=k == 0)
                for k, (value, column) in enumerate(zip(row, described, strict=True))
            ),
        )
        for row in rows
    ]
    classes = ["sortable"] * (sortable and len(rows) > 2) + ["dense"] * dense
    return el(
        "div",
        el(
            "table",
            el("caption", caption) if caption else None,
            el("thead", el("tr", *head)),
            el("tbody", *body),
            class_=" ".join(classes) or None,
        ),
        class_="scroll",
    )


def section(title: str, *blocks: Child, lead: Child = None, name: str | None = None) -> Html:
    """A section with a heading; `name` is its anchor, made from the title if not given."""
    anchor = name or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
    return el(
        "section",
        el("h2", title, id=f"{anchor}-title"),
        el("p", lead, class_="lead") if lead is not None else None,
        *blocks,
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )


def page(
    title: str,
    sections: Sequence[Html],
    *,
    lead: Child = None,
    eyebrow: str = "FairSilo",
    header: Child = None,
    footer: Child = None,
    live: bool = False,
) -> str:
    """A whole self-contained document. `header` follows the lead, above the first section.

    The Content-Security-Policy forbids every request, and every script but the page's own; a
    `live` page may listen to the server that it came from.
    """
    names = ("report", "live") if live else ("report",)
    scripts = [asset(f"{name}.js") for name in names]
    style = "".join(asset(f"{name}.css") for name in names)
    policy = policy_of(scripts, live)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="generator", content=f"fairsilo {__version__}"),
        el("link", rel="icon", href="data:,"),
        el("title", f"{title} \N{MIDDLE DOT} {eyebrow}"),
        el("style", Html(style)),
    )
    body = el(
        "body",
        el("a", "Skip to the content", href="#main", class_="skip"),
        el(
            "header",
            el("p", eyebrow, class_="eyebrow"),
            el("h1", title),
            el("p", lead, class_="lead") if lead is not None else None,
            header,
        ),
        _contents(sections),
        el("main", *sections, id="main"),
        el("footer", footer or f"Made by FairSilo {__version__}. This page loads nothing."),
        *(el("script", Html(script)) for script in scripts),
    )
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def policy_of(scripts: Sequence[str], live: bool = False) -> str:
    """The Content-Security-Policy of a page with these scripts."""
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    own = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {own}; style-src 'unsafe-inline'; img-src data:; "
        + ("connect-src 'self'; " if live else "")
        + "base-uri 'none'; form-action 'none'"
    )


def table_page(
    title: str,
    sections: Sequence[tuple[str, Sequence[Child]]],
    *,
    lead: Child = None,
    header: Sequence[Child] = (),
) -> str:
    """A page from (heading, blocks) pairs, used by compare, sweep and reproduce.

    `header` are paragraphs below the lead.
    """
    above = join(*(one if isinstance(one, Html) else paragraph(one) for one in header))
    made = [section(heading, *blocks) for heading, blocks in sections]
    return page(title, made, lead=lead, header=above)


def grid(*blocks: Child) -> Html:
    """Charts side by side where there is room."""
    return el("div", *blocks, class_="grid")


def paragraph(*children: Child) -> Html:
    """A paragraph of text."""
    return el("p", *children)


def note(*children: Child) -> Html:
    """A remark the reader should not miss."""
    return el("p", *children, class_="note", role="note")


def details(summary: str, *blocks: Child) -> Html:
    """Blocks that are folded away on screen and open in print."""
    return el("details", el("summary", summary), *blocks)


def bullets(items: Sequence[Child]) -> Html:
    """A list."""
    return el("ul", *(el("li", item) for item in items))


def asset(name: str) -> str:
    """A style sheet or script of this package."""
    return files("fairsilo.report").joinpath("assets", name).read_text(encoding="utf-8")


def _contents(sections: Sequence[Html]) -> Html | None:
    """Links to the sections, or None if there is only one."""
    headings = [re.search(r'<h2 id="([^"]+)-title">(.*?)</h2>', part) for part in sections]
    links = [el("a", Html(m[2]), href=f"#{m[1]}") for m in headings if m]
    spaced = itertools.chain.from_iterable((link, " ") for link in links)
    return el("nav", *spaced, aria_label="Contents") if len(links) > 2 else None


def _align(column: Column) -> str | None:
    return None if column.kind == "text" else "num"


def _cell(value: Child, column: Column, *, first: bool) -> Html:
    tag, scope = ("th", "row") if first else ("td", None)
    raw = f"{value:.6g}" if isinstance(value, int | float) else None
    return el(tag, _written(value, column), scope=scope, class_=_align(column), data_sort=raw)


def _written(value: Child, column: Column) -> Child:
    if isinstance(value, str):
        return value
    why, digits = column.why, column.digits
    if column.kind in ("percent", "points"):
        return percent(value, signed=column.kind == "points", why=why)
    if column.kind in ("count", "size"):
        return (count if column.kind == "count" else size)(value, why=why)
    return number(value, digits, signed=column.kind == "signed", why=why)
