"""The certificate of decisions: how far apart the groups' rates can be, exactly.

Each group's rate is between the ends of Clopper and Pearson's interval, each end failing with
probability alpha/2 at most. If rate a is the larger one, the gap is at most (high a) - (low b), and
else (high b) - (low a); which of the two it is does not depend on the rows. So the larger of both
bounds the gap with confidence 1 - alpha, for any number of rows.

Of several comparisons the bound of the one with the largest true gap holds with that confidence,
and the largest bound is no smaller: it bounds the largest gap. Where each line is read by itself,
`together` holds for all lines at once (Bonferroni).

A silo that leaves a cell out for its few rows selects rows by their group and class. A rate within
one group and class is then that of the silos that have enough rows there. A rate over several
classes (demographic parity, accuracy parity) or groups is of another mixture than the population's,
by any amount: of such a rate no bound is given.

Clopper and Pearson's interval holds at one time that was fixed before. Of audits that are added, at
all times together, each rate has the interval of `sequence` instead, which fails with probability
alpha/2 at most.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairsilo.arrays import Ints
from fairsilo.evaluate.exact import clopper_pearson
from fairsilo.evaluate.intervals import LEVEL, Interval
from fairsilo.evaluate.metrics import largest, rate_sides
from fairsilo.evaluate.sequence import at_any_time
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.words import describe

ALWAYS = (
    "The rows of all audits are from the same population, and no row came twice. The bounds hold "
    "however often one looks, and whenever one stops.",
)
"""What else is assumed where audits are added."""
ASSUMES = (
    "The held-out rows are independent draws from the population that the model will meet. Nothing "
    "in this certificate can tell whether they are.",
    "The model did not see these rows: neither its training, nor the choice of its settings "
    "(method, limits, features) used them.",
    "The recorded class of every row is right. Nothing else is assumed: the bounds are exact for "
    "any number of rows.",
)
"""The assumptions of the statement, in words."""
MANY = 1_000_000
"""More rows than this are not counted: the gap is at its limit."""


def certify_rates(
    tally: Tally,
    constraints: Sequence[Constraint],
    groups: Sequence[str],
    classes: Sequence[str],
    limit: float | None,
    level: float = LEVEL,
    hidden: Ints | None = None,
    audits: int = 0,
) -> dict[str, Any]:
    """Bounds of every constraint's gap of rates; constraints without rates are left out.

    `hidden`: how many silos left out a cell, (groups, classes). `audits`: so many were added so far
    one after the other, and the bounds are to hold at all times together.
    """
    compared = [one for one in constraints if len(rate_sides(tally, one)) == 2]
    biased = next((one for one in compared if missing(hidden, [one], mixed=True)), None)
    why = None
    if biased is not None:
        why = _selected(describe(biased, groups, classes), missing(hidden, compared))
        compared = []
    strict = 1 - (1 - level) / max(len(compared), 1)
    lines = [
        {
            "name": describe(one, groups, classes),
            **_line(tally, one, level, audits),
            "together": _line(tally, one, strict, audits)["bound"],
        }
        for one in compared
    ]
    bound = largest([line["bound"] for line in lines])
    met = None if limit is None or bound is None else bound <= limit
    worst = max(lines, key=lambda line: line["bound"], default=None)
    needed = None
    if limit is not None and worst is not None and not met:
        needed = more_rows(worst, worst["bound"], limit)
    return {
        "limit": limit, "bound": bound, "met": met, "lines": lines, "needed": needed,
        "method": "betting" if audits else "Clopper-Pearson", "why": why, "audits": audits,
    }  # fmt: skip


def missing(hidden: Ints | None, constraints: Sequence[Constraint], mixed: bool = False) -> int:
    """How many cells of these comparisons silos left out; `mixed`: of sides of several cells."""
    if hidden is None:
        return 0
    compared = np.zeros(hidden.shape, np.bool_)
    for one in constraints:
        for side in one.sides(*hidden.shape):
            compared |= side & (side.sum() > (1 if mixed else 0))
    return int(hidden[compared].sum())


def without_cells(rates: Mapping[str, Any]) -> str:
    """What a table of these rates has to say of rows that it lacks; empty if it has all."""
    cells = rates.get("hidden", 0)
    return (
        f"Without {cells:,} cells (a group and class in a silo) that silos left out for their few "
        "rows: the rates of all rows can be far from these."
        if cells
        else ""
    )


def _selected(name: str, cells: int) -> str:
    return (
        f"{cells:,} cells (a group and class in a silo) are left out for their few rows, and "
        f"\u201c{name}\u201d compares rates over several cells, so that those of the rows left can "
        "be far from those of the population. Compare within classes (equalized-odds), or have the "
        "silos count small cells, too"
    )


def _line(tally: Tally, constraint: Constraint, level: float, audits: int) -> dict[str, Any]:
    (m, a), (n, b) = ((int(rows), round(hits)) for rows, hits, _ in rate_sides(tally, constraint))
    first, second = (
        at_any_time(hits, rows, (1 + level) / 2) if audits else clopper_pearson(hits, rows, level)
        for hits, rows in ((a, m), (b, n))
    )
    return {
        "rows_a": m,
        "rows_b": n,
        "rate_a": a / m if m else None,
        "rate_b": b / n if n else None,
        "gap": a / m - b / n if m and n else None,
        "bound": gap_bound(first, second),
    }


def gap_bound(a: Interval, b: Interval) -> float:
    """The largest gap of two values within their intervals."""
    return max(a.high - b.low, b.high - a.low)


def more_rows(line: dict[str, Any], bound: float, limit: float) -> int | None:
    """How many more rows of the smaller side would certify the limit, if the gap stays what it is.

    The bound is the gap and a width that falls with the root of the rows; None: no number would.
    """
    gap, smaller = line["gap"], min(line["rows_a"], line["rows_b"])
    if gap is None or not smaller:
        return None
    room = limit - abs(gap)
    if room <= 0:
        return None
    rows = math.ceil((((bound - abs(gap)) / room) ** 2 - 1) * smaller)
    return rows if rows <= MANY else None


def in_words(needed: int | None, whom: str) -> str:
    """How many rows would settle it: "about 1,900 more rows of ..."; empty if none would."""
    if needed is None:
        return ""
    rounded = round(needed, -max(len(str(needed)) - 2, 0))
    return (
        f" About {rounded:,} more held-out rows of {whom}, and of the others in proportion, would "
        "settle it if the gap stays what it is."
    )


def joined(found: dict[str, Any], rates: dict[str, Any], unseen: bool = True) -> dict[str, Any]:
    """A certificate of losses with that of rates: with a target, or where nothing is said of
    losses, it is about the rates, else these are added to its statement."""
    both = {**found, "about": "losses", "rates": rates}
    bounded = found["bounds"][found["by"]] is not None
    if rates["why"] is not None:
        refused = f"There is no certificate of the rates: {rates['why']}."
        if rates["limit"] is None and bounded:
            return {**both, "statement": f"{found['statement']} {refused}"}
        return {**both, "about": "rates", "met": None, "statement": refused, "assumes": []}
    if not rates["lines"]:
        return both
    if rates["limit"] is None and bounded:
        name = max(rates["lines"], key=lambda line: line["bound"])["name"]
        more = (
            f"With at least {100 * found['level']:g}% confidence the rates of "
            f"\u201c{name}\u201d are at most {100 * rates['bound']:.1f} points apart."
        )
        return {**both, "statement": f"{found['statement']} {more}"}
    words = statement(rates, found["rows"], found["level"], unseen)
    assumes = [*ASSUMES, *(ALWAYS if rates["audits"] else ())]
    return {**both, "about": "rates", "met": rates["met"], "statement": words, "assumes": assumes}


def statement(found: dict[str, Any], rows: int, level: float, unseen: bool = True) -> str:
    """The certificate in words for readers without statistics."""
    worst = max(found["lines"], key=lambda line: line["bound"])
    if worst["gap"] is None:
        return "There is no certificate: a group has no held-out row to be compared on."
    pair, _, where = worst["name"].partition(" in ")
    several = f" Of {len(found['lines'])} comparisons this is the one with the largest bound."
    known = " that the model did not see" if unseen else ", provided the model never saw them"
    audits = found["audits"]
    start = f"Over {audits} audit{'s' * (audits > 1)} and" if audits else "On"
    so_far, always = (" so far", " at all times together") if audits else ("", "")
    words = (
        f"{start} {rows:,} rows{so_far}{known}, the rates of \u201c{worst['name']}\u201d are "
        f"{100 * worst['rate_a']:.1f}% and {100 * worst['rate_b']:.1f}%."
        f"{several if len(found['lines']) > 1 else ''} With at least {100 * level:g}% confidence"
        f"{always} the difference in the whole population is at most "
        f"{100 * worst['bound']:.1f} points."
    )
    limit = found["limit"]
    if limit is None:
        return f"{words} No limit on rates was set, so none is certified."
    if found["met"]:
        return f"{words} So the target of {100 * limit:g} points is kept: certified."
    groups = pair.split(" - ")
    smaller = groups[0] if worst["rows_a"] <= worst["rows_b"] else groups[-1]
    whom = f"\u201c{smaller}\u201d" + (f" with \u201c{where}\u201d" if where else "")
    return (
        f"{words} That is above the target of {100 * limit:g} points, so the target is NOT "
        f"certified; this does not say that it is broken.{in_words(found['needed'], whom)}"
    )
