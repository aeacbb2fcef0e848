"""The gaps in rates of an audit by a notion of fairness, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.intervals import newcombe
from fairsilo.evaluate.metrics import largest, rate_sides
from fairsilo.evaluate.rates import missing
from fairsilo.fairness import DEFAULT, NOTIONS, Constraint
from fairsilo.fairness.notion import comparisons
from fairsilo.fairness.words import describe


def with_rates(notion: object) -> str:
    """The notion of this name; the usual one where it is unknown or has no rates."""
    found = NOTIONS.get(str(notion), DEFAULT)
    return found.name if found.rates else DEFAULT.name


def constraints_of(
    notion: str, names: Names, groups: Sequence[str], protected: Sequence[str]
) -> tuple[Constraint, ...]:
    """Every two groups, compared as the notion says."""
    sides = comparisons([names.groups.index(one) for one in groups], "pairs")
    classes = [names.classes.index(one) for one in protected]
    return NOTIONS[notion].constraints(sides, classes, len(names.classes))


def rate_gaps(
    evidence: Evidence, constraints: Sequence[Constraint], names: Names, level: float
) -> dict[str, Any]:
    """The largest gap in rates, and every comparison with its rates and Newcombe's interval.

    `hidden`: how many of the compared cells silos left out, so that the rates are without them.
    """
    lines: list[dict[str, Any]] = []
    for one in constraints:
        (m, a, _), (n, b, _) = rate_sides(evidence.tally, one)
        span = newcombe(int(a), m, int(b), n, level)
        lines.append(
            {
                "name": describe(one, names.spoken.groups, names.spoken.classes),
                "rows_a": m,
                "rows_b": n,
                "rate_a": a / m if m else None,
                "rate_b": b / n if n else None,
                "gap": a / m - b / n if m and n else None,
                "newcombe": None if span is None else [span.low, span.high],
            }
        )
    return {
        "value": largest([line["gap"] for line in lines]),
        "lines": lines,
        "hidden": missing(evidence.hidden, constraints),
    }
