"""The section "Who pays for it?": results of every group in every class, and of every client."""

from collections.abc import Sequence
from typing import Any

from fairsilo.method import Method
from fairsilo.report.blocks import Column, details, grid, paragraph, section, table
from fairsilo.report.charts import Dot, dots, histogram, ranked
from fairsilo.report.charts.scale import Unit
from fairsilo.report.html import Child, Html
from fairsilo.report.sections.facts import Cell, Facts
from fairsilo.report.sections.fair import folded, rates
from fairsilo.report.text import count, defined, interval, number, percent, plain, plural

NAMED, COLUMNS, LISTED = 10, 60, 1000
"""The most clients that are shown as named rows, as columns, and as lines of the table."""
MOST_CLASSES = 6
_NO_ROW = "no test row of this group and class"
_NO_GAP = "this client has no row of one of the groups in the protected class"


def pays(facts: Facts) -> Html:
    """The section."""
    return section(
        "Who pays for it?",
        *_classes(facts),
        *_clients(facts),
        lead=(
            "Making one gap small can cost something elsewhere: in another class, another group, "
            "or with one of the clients. Here is everyone."
        ),
        name="who-pays",
    )


def _classes(facts: Facts) -> list[Child]:
    by_class: dict[str, list[Cell]] = {}
    for cell in facts.cells:
        by_class.setdefault(cell.name, []).append(cell)
    charts = [
        rates(
            f"Truly \u201c{name}\u201d",
            [Dot(c.group, c.rate, c.interval, note=_note(c, facts.protected)) for c in cells],
            "Share predicted right, with 95% whiskers",
        )
        for name, cells in by_class.items()
    ]
    columns = [
        Column("Group"),
        Column("True class"),
        Column("Test rows", "count"),
        Column("Predicted right", "percent", why=_NO_ROW),
        Column("95% interval", "figure"),
        Column(f"Predicted \u201c{facts.protected}\u201d", "percent", why=_NO_ROW),
        Column("Mean loss", "number", why=_NO_ROW),
    ]
    rows = [
        [
            c.group,
            c.name,
            round(c.rows),
            c.rate,
            interval(c.interval, rate=True, why=_NO_ROW),
            c.predicted.get(facts.protected, 0) / c.rows if c.rows else None,
            c.losses.mean if c.losses else None,
        ]
        for c in facts.cells
    ]
    whole = table(columns, rows, caption="Every group and class, on the test rows")
    if len(charts) > MOST_CLASSES:
        return [whole]
    return [grid(*charts), folded(whole, len(rows), "groups and classes in a table")]


def _note(cell: Cell, protected: str) -> str:
    rows = f"{cell.right:,.0f} of {plural(round(cell.rows), 'test row')}"
    if cell.name == protected or not cell.rows:
        return rows
    share = percent(cell.predicted.get(protected, 0) / cell.rows)
    return f"{rows}; {share} are taken for \u201c{protected}\u201d"


def _clients(facts: Facts) -> list[Child]:
    clients: Sequence[dict[str, Any]] = facts.metrics.get("by_client", [])
    if not clients:
        return []
    undefined = sum(not defined(one.get("dgeo")) for one in clients)
    words = f"Of {plural(len(clients), 'client')}, each on its own training rows. "
    if undefined:
        words += (
            f"For {plural(undefined, 'client')} the gap is undefined, "
            "because a group has no row there in the protected class; "
            f"{'it is' if undefined == 1 else 'they are'} not in the chart of gaps. "
        )
    words += f"A single client has few rows, so its gap swings by chance{_limit(facts.method)}."
    epsilon = facts.epsilon
    limit = None if epsilon is None else (epsilon, f"limit {plain(epsilon)}")
    worst = sorted(clients, key=lambda one: one["accuracy"] if defined(one["accuracy"]) else 2.0)
    columns = [
        Column("Client"),
        Column("Training rows", "count"),
        Column("Accuracy", "percent", why="this client has no rows"),
        Column("Gap in loss", "number", why=_NO_GAP),
    ]
    rows = [[str(o["client"]), o["rows"], o["accuracy"], o["dgeo"]] for o in worst[:LISTED]]
    cut = f" (the {LISTED:,} least accurate)" if len(worst) > LISTED else ""
    return [
        paragraph(words),
        grid(
            _spread("Accuracy by client", clients, "accuracy", "percent", None),
            _spread("Gap in loss by client (DGEO)", clients, "dgeo", "number", limit),
        ),
        details(
            f"All {plural(len(clients), 'client')} in a table{cut}",
            table(columns, rows, caption="Least accurate first; click a heading to sort"),
        ),
    ]


def _limit(method: Method) -> str:
    """What the limit means for a single client; some methods limit no loss."""
    if method.limits != "loss":
        return ""
    if method.by_silo:
        whose = "client\u2019s own model" if method.alone else "client"
        return f"; every {whose} has a limit of its own"
    return "; the limit holds for all of them together, not for each"


def _spread(
    title: str,
    clients: Sequence[dict[str, Any]],
    key: str,
    unit: Unit,
    limit: tuple[float, str] | None,
) -> Html | None:
    """One value per client: named rows for few, sorted columns for dozens, else a histogram."""
    known = [(str(one["client"]), float(one[key])) for one in clients if defined(one.get(key))]
    if not known:
        return None
    values = [value for _, value in known]
    low, high = (percent(v) if unit == "percent" else number(v) for v in (min(values), max(values)))
    caption = f"From {low} to {high}" if len(known) > 1 else None
    rows = {str(one["client"]): count(one.get("rows")) for one in clients}
    if len(known) <= NAMED:
        ordered = sorted(known, key=lambda pair: pair[1])
        points = [Dot(name, value, note=f"{rows[name]} rows") for name, value in ordered]
        band = (0.0, limit[0]) if limit else None
        return dots(title, points, unit=unit, band=band, caption=caption)
    if len(known) <= COLUMNS:
        dotted = f". Dotted: {limit[1]}" if limit else ""
        named = [(f"Client {name} ({rows[name]} rows)", value) for name, value in known]
        return ranked(
            title,
            named,
            unit=unit,
            reference=limit,
            caption=f"{caption}; one column per client, sorted{dotted}",
            zero=key == "dgeo",
        )
    return histogram(
        title, values, unit=unit, reference=limit, caption=f"{caption}; how many clients are where"
    )
