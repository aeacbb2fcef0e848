"""The page of an audit, made from audit.json alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairsilo.evaluate.intervals import FEWEST, Interval
from fairsilo.evaluate.rates import without_cells
from fairsilo.fairness import DEFAULT, Notion
from fairsilo.fairness.words import audit_spoken
from fairsilo.report.blocks import Column, bullets, grid, page, section, table
from fairsilo.report.charts import Dot, dots
from fairsilo.report.html import Child, Html, coded, el
from fairsilo.report.sections.certificate import certificate
from fairsilo.report.sections.fair import MOST_ROWS, folded, rates
from fairsilo.report.sections.words import notion_of
from fairsilo.report.text import count, interval, listing, number, percent, plain, plural, shorten

Found = Mapping[str, Any]
_EMPTY = "a group has no row of this class"
_NO_LOSS = "the losses are not known, or a group has no row of this class"
_NAMES = {"newcombe": "Newcombe", "chebyshev": "Chebyshev"}
_FEW = (
    f"a group has fewer than {FEWEST} rows of the class, or a silo a single one, or nothing varies"
)


def audit_page(found: Found) -> str:
    """audit.html: one self-contained file."""
    found, why = audit_spoken(found), _useless(found)
    said = [*([] if why is None else [f"This model is {why}"]), *found["notes"]]
    losses = any(c["loss"] is not None for c in found["cells"])
    return page(
        _headline(found),
        [_glance(found), *_by_notion(found), _rates(found), *([_losses(found)] if losses else []),
         _cells(found), certificate(found["certificate"]), _says(found)],
        lead=_lead(found),
        eyebrow=f"FairSilo \N{MIDDLE DOT} audit \N{MIDDLE DOT} {found['data']}",
        header=bullets([coded(f"{one[:1].upper()}{one[1:]}.") for one in said]) if said else None,
    )  # fmt: skip


def _useless(found: Found) -> str | None:
    """Why the model is hardly better than one answer for everybody; None where it is."""
    why = (found.get("worth") or {}).get("why")
    return None if why is None else str(why)


def _headline(found: Found) -> str:
    if _useless(found) is not None:
        return "This model is hardly better than one answer for everybody"
    own = _own(found)
    gap = found["deo"]["pooled"]["value"] if own is None else found["rates"]["value"]
    if gap is None:
        return "The gap between the groups could not be measured"
    if own is None:
        return f"The groups are recognised {100 * gap:.1f} percentage points apart"
    what = "Shares that get an answer" if own.claims else "Shares predicted right"
    return f"{what} are {100 * gap:.1f} percentage points apart between the groups"


def _lead(found: Found) -> str:
    groups = listing([f"\u201c{name}\u201d" for name in found["groups"]])
    classes = listing([f"\u201c{name}\u201d" for name in found["protected"]], "or")
    return (
        f"An audit of {found['model']} on {count(found['rows'])} rows of "
        f"{plural(found['silos'], 'silo')} ({found['which']}), from sums over each silo\u2019s "
        f"rows only. Compared are the groups {groups} among people who truly are {classes}."
    )


def _glance(found: Found) -> Html:
    level = _level(found)
    spans = {
        "Accuracy": (found["accuracy"]["value"], found["accuracy"]["wilson"], True),
        "Balanced accuracy": (found["balanced_accuracy"], None, True),
        "Rate gap (DEO)": (
            found["deo"]["pooled"]["value"], found["deo"]["pooled"]["newcombe"], True
        ),
        "Loss gap (DGEO)": (
            found["dgeo"]["pooled"]["value"], found["dgeo"]["pooled"]["normal"], False
        ),
    }  # fmt: skip
    entries = []
    for name, (value, span, rate) in spans.items():
        shown = percent(value, why=_EMPTY) if rate else number(value, why=_NO_LOSS)
        words = (
            el("small", f" {interval(Interval(*span), rate=rate)}") if span is not None else None
        )
        entries.append(el("div", el("dt", name), el("dd", shown, words)))
    several = (
        " Of several pairs the largest gap is shown; its range allows for having looked at all."
        if len(found["pairs"]) > 1
        else ""
    )
    return section(
        "At a glance",
        el("dl", *entries, class_="facts"),
        lead=f"Ranges in small print hold with {level} confidence.{several}",
        name="glance",
    )


def _rates(found: Found) -> Html:
    return section(
        "Who is recognised (DEO)",
        _chart(found, "rate_gap", "newcombe", None),
        _gaps(found, "rate_gap", {"pooled": ("newcombe", "bootstrap"), "mean": ("normal",)}),
        lead=(
            "Of the people who truly are of a class, how many does the model recognise, and how "
            "far apart are the groups? DEO is the absolute difference."
        ),
        name="rates",
    )


def _own(found: Found) -> Notion | None:
    """The notion whose rates are compared, where these are not those within single classes."""
    notion = notion_of(str(found.get("notion") or DEFAULT.name))
    return None if "rates" not in found or notion.within_classes else notion


def _by_notion(found: Found) -> list[Html]:
    """The comparisons of a notion that is not about single classes, which the next section has."""
    notion = _own(found)
    if notion is None:
        return []
    columns = [
        Column("Compared"), Column("Rows", "figure"), Column("Rates", "figure"),
        Column("Difference", "points", why=_EMPTY), Column(f"{_level(found)} (Newcombe)", "figure"),
    ]  # fmt: skip
    rows: list[list[Child]] = []
    for one in found["rates"]["lines"]:
        rates = f"{percent(one['rate_a'])} and {percent(one['rate_b'])}"
        sizes = f"{one['rows_a']:,} and {one['rows_b']:,}"
        rows.append([one["name"], sizes, rates, one["gap"], _span(one["newcombe"], True, _EMPTY)])
    target = found.get("target_deo")
    limit = "" if target is None else f" The target is {100 * target:g} points."
    lead = f"{notion.name}: {notion.words}. {notion.caveat}{limit}"
    lead = f"{lead} {without_cells(found['rates'])}".strip()
    return [section("By the notion of fairness", table(columns, rows), lead=lead, name="notion")]


def _losses(found: Found) -> Html:
    return section(
        "How wrong it is (DGEO)",
        _chart(found, "loss_gap", "normal", "chebyshev"),
        _gaps(found, "loss_gap", dict.fromkeys(("pooled", "mean"), ("normal", "chebyshev"))),
        lead=(
            "The gap between the groups\u2019 average losses. The two estimates answer different "
            "questions: all rows together, or every silo counting alike."
        ),
        name="losses",
    )


def _gaps(found: Found, key: str, kinds: Mapping[str, Sequence[str]]) -> Html:
    """Every pair with both estimates of its gap, each with these kinds of intervals."""
    rate, level = key == "rate_gap", _level(found)
    columns = [Column("Pair"), Column("Class"), *([Column("Rows", "figure")] if rate else [])]
    for estimator, title in (("pooled", "All rows"), ("mean", "Mean of silos")):
        why = _EMPTY if rate else _NO_LOSS
        columns.append(Column(title, "points" if rate else "signed", digits=4, why=why))
        named = [_NAMES.get(kind, kind) for kind in kinds[estimator]]
        columns += [Column(f"{level} ({name})", "figure") for name in named]
    rows: list[list[Child]] = []
    for p in found["pairs"]:
        cells: list[Child] = [_name(p), p["class"], *([_sizes(p)] if rate else [])]
        for estimator, each in kinds.items():
            one, why = p[key][estimator], _EMPTY if rate and estimator == "pooled" else _FEW
            cells += [one["value"], *(_span(one[kind], rate, why) for kind in each)]
        rows.append([*cells, *([p[key]["mean"]["silos"]] if rate else [])])
    columns += [Column("Silos", "count")] if rate else []
    return folded(table(columns, rows), len(rows), "lines")


def _chart(found: Found, key: str, inner: str, outer: str | None) -> Html:
    def row(p: Found, estimator: str, words: str) -> Dot:
        one = p[key][estimator]
        thick, thin = one.get(inner) or one.get("normal"), outer and one.get(outer)
        name = f"{_name(p)} in {p['class']}"
        return Dot(
            f"{name} ({words})",
            one["value"],
            None if thick is None else Interval(*thick),
            None if thin is None else Interval(*thin),
            _sizes(p),
            f"{shorten(name, 26)} ({words})",
        )

    ordered = sorted(found["pairs"], key=lambda p: -abs(p[key]["pooled"]["value"] or 0.0))
    shown = ordered[: MOST_ROWS // 2]
    # The chart has one band, so it is drawn only if all pairs have the same limit.
    one = len(set(found["limits"])) == 1
    limit = found["limit"] if key == "loss_gap" and one else None
    allowed = "" if limit is None else f" The shaded range is the limit, \u00b1{plain(limit)}."
    thin = "" if outer is None else " Thin: Chebyshev\u2019s bound."
    cut = "" if len(shown) == len(ordered) else f" The {len(shown)} largest of {len(ordered)}."
    return dots(
        "Difference between the groups" if key == "rate_gap" else "Gap in average loss",
        [
            row(p, estimator, words)
            for p in shown
            for estimator, words in (("pooled", "all rows"), ("mean", "silos"))
        ],
        unit="percent" if key == "rate_gap" else "number",
        signed=True,
        limits=(-1.0, 1.0) if key == "rate_gap" else None,
        band=None if limit is None else (-limit, limit),
        caption=f"Thick whiskers: {_level(found)} confidence.{thin}{allowed}{cut}",
    )


def _cells(found: Found) -> Html:
    level = _level(found)
    columns = [
        Column("Group"),
        Column("True class"),
        Column("Rows", "count"),
        Column("Recognised", "percent", why=_EMPTY),
        Column(f"{level} (Wilson)", "figure"),
        Column(f"{level} (bootstrap)", "figure"),
        Column("Mean loss", "number", why=_NO_LOSS),
        Column("Silos that hide it", "count"),
    ]
    rows = [
        [c["group"], c["class"], c["rows"], c["rate"], _span(c["wilson"], True, signed=False),
         _span(c["bootstrap"], True, signed=False), c["loss"], c["hidden"]]
        for c in found["cells"]
    ]  # fmt: skip
    charts = [
        rates(
            f"Truly \u201c{name}\u201d",
            [
                Dot(c["group"], c["rate"], c["wilson"] and Interval(*c["wilson"]),
                    note=f"{c['right']:,} of {plural(c['rows'], 'row')}")
                for c in cells
            ],
            "Share recognised",
        )
        for name in found["classes"]
        if (cells := [c for c in found["cells"] if c["class"] == name])
    ]  # fmt: skip
    return section(
        "Every group and class",
        grid(*charts) if len(charts) <= 6 else None,
        folded(table(columns, rows), len(rows), "lines"),
        name="cells",
    )


def _says(found: Found) -> Html:
    unseen = found["unseen"]
    items: list[Child] = [
        "Each silo sends sums per group and class (rows, predictions, losses and their squares) "
        "and its own gap with its variance; nothing else enters this page.",
        f"Every interval holds with {_level(found)} confidence for one pair: among twenty pairs, "
        "one is expected to miss.",
        "The bootstrap redraws the counts of every cell; it and Newcombe\u2019s method answer the "
        "same question and should agree.",
        "The label is taken as the truth. Where past decisions were unfair, a model that "
        "reproduces them equally well for all groups is still unfair.",
    ]
    if unseen is None:
        items.append(
            "Whether the model was trained on these rows is not known here; if it was, it may look "
            "better than it is."
        )
    return section("What this says and does not say", bullets(items), name="limits")


def _span(
    span: Sequence[float] | None, rate: bool, why: str = _EMPTY, *, signed: bool = True
) -> str:
    return interval(None if span is None else Interval(*span), rate=rate, signed=signed, why=why)


def _name(pair: Found) -> str:
    return f"{pair['a']} \N{MINUS SIGN} {pair['b']}"


def _sizes(pair: Found) -> str:
    return f"{pair['rows_a']:,} and {pair['rows_b']:,}"


def _level(found: Found) -> str:
    return f"{100 * found['level']:g}%"
