"""How training went: loss, gaps, multipliers, distance from the optimum and bytes, by round."""

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.report.blocks import Column, details, grid, paragraph, section, table
from fairsilo.report.charts import Line, lines
from fairsilo.report.html import Child, Html, el
from fairsilo.report.sections.facts import Facts
from fairsilo.report.sections.verdict import sentence
from fairsilo.report.text import count, duration, missing, plain, plural, size

APART = 6
"""Up to this many constraints get a line each; of more, the range and the largest few do."""
LARGEST = 3
LISTED = 200
_ROUND = "round"
_KKT = (
    "How far the round is from satisfying the conditions of an optimum (KKT residual, logarithmic)."
)


def training(facts: Facts) -> Html:
    """The section."""
    rounds = facts.column("round")
    charts = [
        _single(facts, "Average loss", "loss", "What training makes small."),
        *_constraints(facts, rounds),
        _single(
            facts,
            "Distance from the optimum",
            "residual",
            _KKT,
            log=True,
        ),
        _bytes(facts, rounds),
    ]
    return section(
        "How training went",
        _figures(facts),
        grid(*charts) if len(rounds) else paragraph("No round was recorded."),
        _final(facts),
        lead=_ending(facts),
        name="training",
    )


def _ending(facts: Facts) -> str:
    reason = str(facts.metrics.get("reason", ""))
    rounds = plural(int(facts.metrics.get("rounds") or 0), "round")
    return f"{rounds}. {sentence(reason)}." if reason else f"{rounds}."


def _figures(facts: Facts) -> Html:
    metrics = facts.metrics
    up, down = metrics.get("bytes_up"), metrics.get("bytes_down")
    share = None if up is None or not facts.clients else (up + (down or 0)) / facts.clients
    entries = {
        "Rounds": count(metrics.get("rounds")),
        "Exchanges for set-up": count(metrics.get("setup_exchanges")),
        "Sent by all clients": size(up),
        "Sent to all clients": size(down),
        "Both, per client": size(share),
        "Computing time": duration(metrics.get("seconds")),
    }
    return el(
        "dl",
        *(el("div", el("dt", name), el("dd", value)) for name, value in entries.items()),
        class_="facts",
    )


def _single(
    facts: Facts, title: str, column: str, caption: str, *, log: bool = False
) -> Html | None:
    values = facts.column(column)
    if not len(values):
        return None
    line = Line(title, facts.column("round"), values)
    return lines(title, [line], x_title=_ROUND, log_y=log, caption=caption)


def _constraints(facts: Facts, rounds: Floats) -> list[Child]:
    gaps, forces = facts.columns("d"), facts.columns("mu")
    if not gaps:
        return []
    names = facts.constraint_names(len(gaps))
    limits = set(facts.constraint_limits(len(gaps)))
    epsilon = limits.pop() if len(limits) == 1 else None
    title = f"Gap in {'rates' if facts.rates_limited else 'loss'} between the groups (D)"
    rows, limit = "On the training rows.", "the limit"
    if facts.method.limits == "tau":
        # AgnosticFair limits no gap, and has no multipliers of any.
        epsilon, forces = facts.metrics.get("tau"), []
        title = "How far group and score go together (C)"
        rows, limit = "On the training rows, under the worst weights.", "tau"
    many = ""
    if len(gaps) > APART:
        many = (
            f" There are {len(gaps)} constraints: the pale range holds all of them, "
            f"the lines are their median and the {LARGEST} that end largest."
        )
    allowed = "" if epsilon is None else f" The shaded range is what {limit} allows."
    charts: list[Child] = [
        lines(
            title,
            _select(rounds, gaps, names),
            x_title=_ROUND,
            band=None if epsilon is None else (-epsilon, epsilon),
            caption=f"{rows}{allowed}{many}",
        )
    ]
    if forces:
        charts.append(
            lines(
                "How hard the limit pushes (multiplier)",
                _select(rounds, forces, facts.constraint_names(len(forces))),
                x_title=_ROUND,
                caption=f"Zero: the limit costs nothing. Far from zero: it costs accuracy.{many}",
            )
        )
    return charts


def _select(rounds: Floats, columns: list[Floats], names: list[str]) -> list[Line]:
    """A line for each of few constraints; for many, the range, median and largest few."""
    if len(columns) <= APART:
        return [Line(n, rounds, c) for n, c in zip(names, columns, strict=True)]
    stack = np.vstack(columns)
    stack[~np.isfinite(stack)] = np.nan
    dead = np.isnan(stack).all(axis=0)
    low, high, middle = (np.full(stack.shape[1], np.nan) for _ in range(3))
    low[~dead], high[~dead] = np.nanmin(stack[:, ~dead], 0), np.nanmax(stack[:, ~dead], 0)
    middle[~dead] = np.nanmedian(stack[:, ~dead], 0)
    last = np.nan_to_num(np.abs(stack[:, -1]), nan=np.inf)
    largest = np.argsort(-last, kind="stable")[:LARGEST]
    envelope = Line(f"median of {len(columns)}", rounds, middle, low, high)
    return [envelope, *(Line(names[k], rounds, columns[k]) for k in largest)]


def _bytes(facts: Facts, rounds: Floats) -> Html | None:
    up, down = facts.column("bytes_up"), facts.column("bytes_down")
    if not len(up):
        return None
    # Every round costs about the same, so a hundred points are enough.
    some = np.unique(np.linspace(0, len(up) - 1, 100).astype(np.int64))
    return lines(
        "Bytes sent so far",
        [
            Line("from the clients", rounds[some], np.cumsum(up)[some]),
            Line("to the clients", rounds[some], np.cumsum(down)[some]),
        ],
        x_title=_ROUND,
        unit="bytes",
        caption="All clients together, without set-up. Only sums over rows are sent, no rows.",
    )


def _final(facts: Facts) -> Html | None:
    """Where each constraint ended, largest first."""
    gaps, forces = facts.columns("d"), facts.columns("mu")
    if facts.method.limits == "tau" or not gaps or not len(gaps[0]) or len(forces) != len(gaps):
        return None
    names, limits = facts.constraint_names(len(gaps)), facts.constraint_limits(len(gaps))
    ends = sorted(
        (
            (n, float(d[-1]), float(m[-1]), limit)
            for n, d, m, limit in zip(names, gaps, forces, limits, strict=True)
        ),
        key=lambda end: -abs(end[1]),
    )
    columns = [
        Column("Constraint"),
        Column("Gap at the end (D)", "signed", digits=4),
        Column("Limit", "figure"),
        Column("Multiplier", "signed", digits=4),
    ]
    unset = missing("no limit was set")
    rows: list[list[Child]] = [
        [name, d, unset if limit is None else plain(limit), m]
        for name, d, m, limit in ends[:LISTED]
    ]
    title = "Where each constraint ended"
    if len(ends) > LISTED:
        title += f" (the {LISTED} largest of {len(ends)})"
    return details(title, table(columns, rows))
