"""The page of `fairsilo diff`: runs side by side, made from what it found alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairsilo.evaluate.intervals import Interval
from fairsilo.report.blocks import Column, bullets, grid, page, section, table
from fairsilo.report.charts import Dot, Line, dots, lines
from fairsilo.report.html import Child, Html, el
from fairsilo.report.sections.words import OPTIONS
from fairsilo.report.text import DASH, interval, listing, number, percent, plain

Found = Mapping[str, Any]
FIGURES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "auc": "AUC",
    "rate_gap": "Largest gap in rates",
    "loss_gap": "Largest gap in losses",
}
"""What is compared on the test rows, in words."""
RATES = ("accuracy", "balanced_accuracy", "rate_gap")
MOST = 20
"""Of so many gaps the page shows each; the JSON has all."""


def diff_page(found: Found) -> str:
    """One self-contained file; it has the names of columns and groups, and no row."""
    runs = found["runs"]
    sections = [_figures(runs), _gaps(runs), _paired(found["paired"]), _curves(runs)]
    sections.append(_settings(runs, found["settings"]))
    return page(
        f"{listing([one['name'] for one in runs])}, side by side",
        [one for one in sections if one is not None],
        lead="Figures are of the rows that each run was tested on, with 95% intervals.",
        eyebrow="FairSilo \N{MIDDLE DOT} runs compared",
        header=bullets([f"{one[:1].upper()}{one[1:]}." for one in found["notes"]])
        if found["notes"]
        else None,
    )


def compared_as(gap: Found) -> str:
    """Who is compared with whom, in which class or answer."""
    who = " \N{MINUS SIGN} ".join(" or ".join(side) for side in (gap["a"], gap["b"]) if side)
    what = f"predicted {gap['claim']}" if gap["claim"] is not None else ", ".join(gap["classes"])
    return f"{who} ({what})"


def value_of(name: str, value: Any) -> str:
    """A setting as it is told; a digest by its beginning."""
    if value is None:
        return DASH
    if isinstance(value, list):
        return ", ".join(value_of(name, one) for one in value) or DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return plain(value)
    return str(value)[:16] if name == "data digest" else str(value) or DASH


def chance(p: float) -> str:
    """A p-value; very small ones are not told apart."""
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _figures(runs: Sequence[Found]) -> Html:
    columns = [Column("Test rows"), *(Column(one["name"], "figure") for one in runs)]
    rows: list[list[Child]] = [["Rows", *(f"{one['test_rows']:,}" for one in runs)]]
    for key, title in FIGURES.items():
        each = [one["figures"][key] for one in runs]
        rows.append([title, *(_told(one, key in RATES) for one in each)])
    rows.append(["Rounds", *(_rounds(one) for one in runs)])
    bars = [
        Dot(one["name"], one["figures"]["accuracy"]["value"], _span(one["figures"]["accuracy"]))
        for one in runs
    ]
    return section(
        "Figures",
        table(columns, rows, sortable=False),
        dots("Accuracy", bars, unit="percent", caption="Share predicted right, with 95% intervals"),
        name="figures",
    )


def _gaps(runs: Sequence[Found]) -> Html | None:
    """Every comparison of groups, a dot for each run."""
    names = list(dict.fromkeys(pair["name"] for one in runs for pair in one["pairs"]))
    if not names:
        return None
    charts = []
    for kind, title, unit in (
        ("rate", "Gaps in rates", "percent"), ("loss", "Gaps in losses", "number"),
    ):  # fmt: skip
        shown = [
            Dot(f"{one['name']}: {name}", pair[kind]["value"], _span(pair[kind]))
            for name in names[:MOST]
            for one in runs
            for pair in one["pairs"]
            if pair["name"] == name and pair[kind]["value"] is not None
        ]
        if shown:
            charts.append(dots(title, shown, unit=unit, signed=True))  # type: ignore[arg-type]
    more = f" Shown are {MOST} of {len(names)}." if len(names) > MOST else ""
    lead = f"First group minus second, as each run compared them; zero is equal.{more}"
    return section("Between the groups", grid(*charts), lead=lead, name="gaps")


def _paired(found: Sequence[Found]) -> Html | None:
    if not found:
        return None
    columns = [
        Column("What"), Column("Run"), Column("Change", "figure"), Column("95% interval", "figure"),
        Column("p", "figure"),
    ]  # fmt: skip
    rows: list[list[Child]] = []
    for one in found:
        for what, change, rate in changes_of(one):
            if change is not None:
                show = percent if rate else number
                span = interval(Interval(*change["interval"]), rate=rate, signed=True)
                shown = show(change["change"], signed=True)
                rows.append([what, one["run"], shown, span, chance(change["p"])])
    first = {**found[0], "apart": any(one["apart"] for one in found)}
    return section(
        "On the same rows",
        table(columns, rows),
        lead=(
            f"Every run minus {first['against']!r}, on the same {first['rows']:,} test rows"
            f"{weighed(first)}. p is the chance of so large a change if the two models were "
            "equally good; it is not corrected for the number of lines. A gap is the first group "
            "minus the second, so a change of it is good or bad by its sign."
        ),
        name="paired",
    )


def weighed(one: Found) -> str:
    """How rows count, where a run has weights; the figures above are by each run's own."""
    if not one["apart"]:
        return ", which count by their weights" if one["weighted"] else ""
    how = "by the weights of" if one["weighted"] else "once each, as for"
    return f", which count {how} {one['against']!r}"


def changes_of(one: Found) -> list[tuple[str, Any, bool]]:
    """What changed, the change, and whether it is one of rates."""
    found = [("accuracy", one["accuracy"], True), ("mean loss", one["loss"], False)]
    for gap in one["gaps"]:
        found.append((f"gap in rates, {gap['name']}", gap["rate"], True))
        found.append((f"gap in losses, {gap['name']}", gap["loss"], False))
    return found


def _curves(runs: Sequence[Found]) -> Html | None:
    charts = []
    for key, title, caption, x_title in (
        ("roc", "ROC", "Share found (up) against share of others taken for it (right)",
         "False-positive rate"),
        ("calibration", "Calibration", "Share who are (up) against the probability told (right)",
         "Probability"),
    ):  # fmt: skip
        each = [
            Line(
                one["name"], [p[0] for p in one["curves"][key]], [p[1] for p in one["curves"][key]]
            )
            for one in runs
            if one["curves"] and one["curves"].get(key)
        ]
        if each:
            each.append(Line("diagonal", [0.0, 1.0], [0.0, 1.0]))
            charts.append(lines(title, each, x_title=x_title, caption=caption, band=(0.0, 0.0)))
    losses = [
        Line(one["name"], one["loss_by_round"]["round"], one["loss_by_round"]["loss"])
        for one in runs
        if one["loss_by_round"]["round"]
    ]
    if losses:
        charts.append(
            lines("Average loss in training", losses, x_title="round", caption="On training rows")
        )
    return section("Curves", grid(*charts), name="curves") if charts else None


def _settings(runs: Sequence[Found], found: Mapping[str, Sequence[Any]]) -> Html:
    columns = ["Option", *(one["name"] for one in runs), "What it is"]
    rows: list[list[Child]] = [
        [el("code", name), *(value_of(name, one) for one in each), OPTIONS.get(name, "")]
        for name, each in found.items()
    ]
    if not rows:
        return section(
            "Settings that differ", "None: the runs were trained alike.", name="settings"
        )
    return section("Settings that differ", table(columns, rows, sortable=False), name="settings")


def _told(one: Found, rate: bool) -> Child:
    show = percent if rate else number
    span = _span(one)
    return show(one["value"]) + ("" if span is None else f" ({interval(span, rate=rate)})")


def _rounds(one: Found) -> str:
    ended = "" if one["converged"] else ", not converged"
    ended = ", stopped early" if one["stopped_early"] else ended
    return DASH if one["rounds"] is None else f"{one['rounds']:,}{ended}"


def _span(one: Found) -> Interval | None:
    return None if one["interval"] is None else Interval(*one["interval"])
