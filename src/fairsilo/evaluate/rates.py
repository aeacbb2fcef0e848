"""The certificate of decisions: how far apart the groups' rates can be, exactly.

Each group's rate is between the ends of Clopper and Pearson's interval, each end failing with
probability alpha/2 at most. If rate a is the larger one, the gap is at most (high a) - (low b), and
else (high b) - (low a); which of the two it is does not depend on the rows. So the larger of both
bounds the gap with confidence 1 - alpha, for any number of rows.

Of several comparisons the bound of the one with the largest true gap holds with that confidence,
and the largest bound is no smaller: it bounds the largest gap. Where each line is read by itself,
`together` holds for all lines at once (Bonferroni).
"""

import math
from collections.abc import Sequence
from typing import Any

from fairsilo.evaluate.exact import clopper_pearson
from fairsilo.evaluate.intervals import LEVEL, Interval
from fairsilo.evaluate.metrics import largest, rate_sides
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint
from fairsilo.fairness.words import describe

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
) -> dict[str, Any]:
    """Bounds of every constraint's gap of rates; constraints without rates are left out."""
    compared = [one for one in constraints if len(rate_sides(tally, one)) == 2]
    strict = 1 - (1 - level) / max(len(compared), 1)
    lines = [
        {
            "name": describe(one, groups, classes),
            **_line(tally, one, level),
            "together": _line(tally, one, strict)["bound"],
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
        "method": "Clopper-Pearson",
    }  # fmt: skip


def _line(tally: Tally, constraint: Constraint, level: float) -> dict[str, Any]:
    (m, a), (n, b) = ((int(rows), hits) for rows, hits, _ in rate_sides(tally, constraint))
    first, second = clopper_pearson(a, m, level), clopper_pearson(b, n, level)
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
    if not rates["lines"]:
        return both
    if rates["limit"] is None and found["bounds"][found["by"]] is not None:
        name = max(rates["lines"], key=lambda line: line["bound"])["name"]
        more = (
            f"With at least {100 * found['level']:g}% confidence the rates of "
            f"\u201c{name}\u201d are at most {100 * rates['bound']:.1f} points apart."
        )
        return {**both, "statement": f"{found['statement']} {more}"}
    words = statement(rates, found["rows"], found["level"], unseen)
    about = {"about": "rates", "met": rates["met"], "statement": words, "assumes": list(ASSUMES)}
    return {**both, **about}


def statement(found: dict[str, Any], rows: int, level: float, unseen: bool = True) -> str:
    """The certificate in words for readers without statistics."""
    worst = max(found["lines"], key=lambda line: line["bound"])
    if worst["gap"] is None:
        return "There is no certificate: a group has no held-out row to be compared on."
    pair, _, where = worst["name"].partition(" in ")
    several = f" Of {len(found['lines'])} comparisons this is the one with the largest bound."
    known = " that the model did not see" if unseen else ", provided the model never saw them"
    words = (
        f"On {rows:,} rows{known}, the rates of \u201c{worst['name']}\u201d are "
        f"{100 * worst['rate_a']:.1f}% and {100 * worst['rate_b']:.1f}%."
        f"{several if len(found['lines']) > 1 else ''} With at least {100 * level:g}% confidence "
        f"the difference in the whole population is at most {100 * worst['bound']:.1f} points."
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
