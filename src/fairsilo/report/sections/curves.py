"""The section "How well does it rank?": ROC, precision and recall, calibration, by group."""

from collections.abc import Mapping
from typing import Any

from fairsilo.report.blocks import Column, details, grid, section, table
from fairsilo.report.charts import Line, lines
from fairsilo.report.html import Child, Html
from fairsilo.report.sections.facts import Facts
from fairsilo.report.text import DASH

MOST = 6
"""So many groups have a line of their own, the largest ones; the table has all."""
ALL = "all"
_ONE_SIDE = "the test rows of this group are all of the class, or none is"


def ranking(facts: Facts) -> Html | None:
    """The section; None where there is no one model with probabilities."""
    found = [one for one in facts.metrics.get("curves") or [] if one["lines"][0]["rows"]]
    if not found:
        return None
    protected = facts.protected.split(", ")
    wanted = [one for one in found if facts.answer(one["class"]) in protected] or found[:1]
    rest = [one for one in found if one not in wanted]
    return section(
        "How well does it rank?",
        *(_class(facts, one) for one in wanted),
        *(
            details(f"The class \u201c{facts.answer(one['class'])}\u201d", _class(facts, one))
            for one in rest
        ),
        lead=(
            "Probabilities on test rows, whatever the decision. AUC is the chance that somebody of "
            "the class gets a higher probability than somebody else. Calibrated probabilities lie "
            "on the diagonal: of those told 30%, three in ten are of the class."
        ),
        name="ranking",
    )


def _class(facts: Facts, one: Mapping[str, Any]) -> Html:
    everyone, *groups = one["lines"]
    shown = sorted((g for g in groups if g["roc"]), key=lambda g: -g["rows"])[:MOST]
    drawn = [everyone, *shown] if len(groups) > 1 else [everyone]
    names = [ALL if g is everyone else facts.called(g["group"]) for g in drawn]
    name = facts.answer(one["class"])
    return grid(
        _chart(f"ROC: \u201c{name}\u201d", drawn, names, "roc",
               "Share found (up) against share of others taken for it (right)",
               "False-positive rate"),
        _chart(f"Precision and recall: \u201c{name}\u201d", drawn, names, "precision_recall",
               "Share of those told so who are (up) against share found (right)", "Recall"),
        _chart(f"Calibration: \u201c{name}\u201d", drawn, names, "calibration",
               "Share who are (up) against the probability told (right)", "Probability"),
        _table(facts, one["lines"]),
    )  # fmt: skip


def _chart(
    title: str,
    drawn: list[Mapping[str, Any]],
    names: list[str],
    key: str,
    caption: str,
    x_title: str,
) -> Html:
    each = [
        Line(name, [p[0] for p in one[key]], [p[1] for p in one[key]])
        for name, one in zip(names, drawn, strict=True)
        if one[key]
    ]
    if key != "precision_recall":
        each.append(Line("diagonal", [0.0, 1.0], [0.0, 1.0]))
    return lines(title, each, x_title=x_title, unit="number", caption=caption, band=(0.0, 0.0))


def _table(facts: Facts, found: list[Mapping[str, Any]]) -> Html:
    columns = [
        Column("Group"), Column("Test rows", "count"), Column("Of the class", "count"),
        Column("AUC", "number", why=_ONE_SIDE), Column("95% interval", "figure"),
    ]  # fmt: skip
    rows: list[list[Child]] = []
    for one in found:
        span = one["auc_interval"]
        told = DASH if span is None else f"{span[0]:.3f} to {span[1]:.3f}"
        name = ALL if one is found[0] else facts.called(one["group"])
        rows.append([name, one["rows"], one["of_class"], one["auc"], told])
    return table(columns, rows)
