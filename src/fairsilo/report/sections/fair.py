"""Fairness on test rows: rates and losses by group, with intervals."""

import math
from collections.abc import Sequence
from typing import Any

from fairsilo.evaluate.intervals import FEWEST
from fairsilo.report.blocks import Column, details, grid, note, paragraph, section, table
from fairsilo.report.charts import Dot, dots
from fairsilo.report.html import Child, Html
from fairsilo.report.sections.facts import NOBODY, Cell, Facts, Pair
from fairsilo.report.sections.words import LOSSES, RATES, WHOSE
from fairsilo.report.text import interval, number, plain, plural

MOST_ROWS = 15
"""The most groups or pairs in a chart, which shows those with the largest gaps; tables have all."""
_EMPTY = "no test row of this group in the protected class"
_FEW = f"a group has fewer than {FEWEST} rows of the class"


def fair(facts: Facts) -> Html:
    """The section."""
    return section(
        "Is it fair, and how sure are we?",
        grid(_rates(facts), _rate_gaps(facts)),
        _group_table(facts),
        paragraph(
            f"{_limited(facts)} The loss of a row says how surprised the model was by the truth: 0 "
            f"is certain and right, {_guess(facts.classes)}, above that is confidently wrong. "
            "Equal average losses mean that nobody\u2019s group is served worse on the whole; "
            "rates usually follow, but need not be equal."
        ),
        _loss_gaps(facts),
        _pair_table(facts),
        lead=(
            "Test rows are a sample: with other rows the figures would be a little different. The "
            "whiskers show how far they can be trusted (95% confidence)."
        ),
        name="fair",
    )


def _limited(facts: Facts) -> str:
    """Whether training limited rates, losses or neither, in words."""
    if facts.rates_limited:
        return "The training limited the rates themselves, on its own rows, and no loss."
    if facts.epsilon is None and facts.target is None:
        return "The training limited neither rates nor losses."
    return "The training limits losses, not rates."


def _guess(classes: int) -> str:
    """The loss of predicting all classes as equally likely, in words."""
    if classes == 2:
        return "0.69 is a coin toss"
    return f"{number(math.log(classes), 2)} is a blind guess among {classes} classes"


def rates(title: str, groups: Sequence[Dot], caption: str) -> Html:
    """A chart of the groups' rates."""
    cut = join_cut(caption, len(groups), "groups")
    return dots(title, groups[:MOST_ROWS], unit="percent", limits=(0.0, 1.0), caption=cut)


def _rates(facts: Facts) -> Html:
    answer = f"\u201c{facts.protected}\u201d" if facts.notion.claims else "right"
    groups = [
        Dot(n, c.rate, c.interval, note=f"{c.right:,.0f} of {plural(round(c.rows), 'test row')}")
        for n, c in _protected(facts)
    ]
    title = RATES[facts.compares].format(protected=facts.protected)
    return rates(title, groups, f"Share predicted {answer}, by group")


def _rate_gaps(facts: Facts) -> Html:
    pairs = sorted(facts.rate_pairs, key=lambda p: -abs(p.rate_gap or 0.0))[:MOST_ROWS]
    return dots(
        "Difference between the groups",
        [Dot(p.name, p.rate_gap, p.rate_interval(), None, _sizes(p), p.short) for p in pairs],
        unit="percent",
        signed=True,
        limits=(-1.0, 1.0),
        caption=join_cut(
            "In percentage points; where the whisker crosses zero, "
            "the test rows cannot tell the groups apart",
            len(facts.rate_pairs),
            "pairs",
        ),
    )


def _loss_gaps(facts: Facts) -> Html:
    pairs = sorted(facts.pairs, key=lambda p: -abs(p.loss_gap or 0.0))[:MOST_ROWS]
    limits = {pair.epsilon for pair in facts.pairs}
    epsilon = limits.pop() if len(limits) == 1 else None
    alone = facts.notion.alone
    upto = "up to " if alone else "\u00b1"
    allowed = f"The shaded range is what the limit allows: {upto}{plain(epsilon or 0.0)}"
    if epsilon is None:
        allowed = "The limits of the pairs are in the table" if limits else "No limit was set"
    return dots(
        LOSSES[facts.compares].format(protected=facts.protected),
        [Dot(p.name, p.loss_gap, p.normal(), p.chebyshev(), _sizes(p), p.short) for p in pairs],
        signed=not alone,
        band=None if epsilon is None else (0.0 if alone else -epsilon, epsilon),
        caption=join_cut(
            f"{allowed}. Thick: 95% by the normal approximation; "
            "thin: Chebyshev\u2019s bound, wider, with the variance estimated; neither with fewer "
            f"than {FEWEST} rows of a group",
            len(facts.pairs),
            "pairs",
        ),
    )


def _group_table(facts: Facts) -> Html:
    columns = [
        Column("Group"),
        Column("Test rows", "count"),
        Column("Recognised", "count"),
        Column("Rate", "percent", why=_EMPTY),
        Column("95% interval (Wilson)", "figure"),
        Column("Mean loss", "number", why=_EMPTY),
    ]
    return table(
        columns,
        [
            [
                n,
                round(c.rows),
                c.right,
                c.rate,
                interval(c.interval, rate=True, why=_EMPTY),
                c.losses.mean if c.losses else None,
            ]
            for n, c in _protected(facts)
        ],
        caption=WHOSE[facts.compares].format(protected=facts.protected),
    )


def _pair_table(facts: Facts) -> Child:
    if not facts.pairs:
        return note("The test rows hold no pair of groups to compare.")
    alone = facts.notion.alone
    rates = [
        Column("Difference in rates", "points", why=_EMPTY),
        Column("95% interval (Newcombe)", "figure"),
    ]
    columns = [
        Column("Group" if alone else "Pair"),
        *([] if alone else rates),
        Column(
            "Average loss" if alone else "Gap in loss", "number" if alone else "signed", why=_EMPTY
        ),
        Column("95% interval (normal)", "figure"),
        Column("95% bound (Chebyshev)", "figure"),
        Column("Within the limit?", "figure"),
    ]
    newcombe: dict[str, Any] = {"rate": True, "signed": True, "why": _EMPTY}
    rows: list[list[Child]] = [
        [
            p.name,
            *([] if alone else [p.rate_gap, interval(p.rate_interval(), **newcombe)]),
            p.loss_gap,
            interval(p.normal(), signed=not alone, why=_FEW),
            interval(p.chebyshev(), signed=not alone, why=_FEW),
            _within(p),
        ]
        for p in facts.pairs
    ]
    who = "Every group" if alone else "Every pair of groups"
    whole = table(columns, rows, caption=f"{who}, on the test rows")
    return folded(whole, len(rows), "pairs in a table")


def folded(whole: Html, rows: int, things: str) -> Html:
    """A table, folded away if it is long."""
    return whole if rows <= MOST_ROWS else details(f"All {rows} {things}", whole)


def _within(pair: Pair) -> str:
    """Whether the normal interval of the pair is within its limit, in words."""
    span, epsilon = pair.normal(), pair.epsilon
    if epsilon is None:
        return "no limit"
    if span is None:
        return "not measurable" if pair.loss_gap is None else "too few rows"
    return "yes" if span.within(epsilon) else "no" if span.beyond(epsilon) else "cannot tell"


def _protected(facts: Facts) -> list[tuple[str, Cell]]:
    """Each compared group once, with its name; "the others" differ by group and are left out."""
    seen = {
        c.group + pair.among: c
        for pair in facts.rate_pairs
        for c in (pair.a, pair.b)
        if c.group in facts.groups
    }
    return list(seen.items())


def _sizes(pair: Pair) -> str:
    if pair.b is NOBODY:
        return plural(round(pair.a.rows), "test row")
    return f"{pair.a.rows:,.0f} and {plural(round(pair.b.rows), 'test row')}"


def join_cut(text: str, whole: int, things: str) -> str:
    """A caption that says how many of the things the chart leaves out."""
    if whole <= MOST_ROWS:
        return f"{text}."
    return f"{text}. {MOST_ROWS} of {whole} {things} are drawn; the table has all."
