"""The certificate: the bound on the gap between the groups, and its assumptions.

It is a section of report.html and audit.html, and a document of its own, certificate.md.
"""

from collections.abc import Mapping
from typing import Any

from fairsilo import __version__
from fairsilo.data.leakage import too_good
from fairsilo.evaluate.intervals import FEWEST
from fairsilo.report.blocks import Column, bullets, note, section, table
from fairsilo.report.html import Child, Html, el
from fairsilo.report.sections.fair import folded
from fairsilo.report.text import plain

KINDS = {
    "chebyshev": ("Chebyshev", "approximate: its variance is estimated"),
    "cantelli": ("Cantelli", "approximate, one-sided"),
    "normal": ("normal", "approximate; needs losses without rare large ones"),
}
_ESTIMATORS = {"pooled": "all rows together", "mean": "average over the silos"}
_FEW = f"a group has fewer than {FEWEST} held-out rows of the class, or the losses are not known"
_NONE = "a group has no held-out row to be compared on, or the sums were not asked for"
_EXACT = "holds for any distribution of the losses and any number of rows; losses are clipped"


def certificate(found: Mapping[str, Any]) -> Html:
    """The section."""
    return section(
        "Certificate",
        note(str(found["statement"])),
        _rates(found) if found.get("rates", {}).get("lines") else None,
        _table(found) if found["pairs"] else None,
        el("h3", "What it assumes") if found["assumes"] else None,
        bullets([str(one) for one in found["assumes"]]) if found["assumes"] else None,
        lead=(
            "How far apart the groups\u2019 rates and their average losses can be in the whole "
            "population, judged by rows that the model must not have seen."
        ),
        name="certificate",
    )


def _table(found: Mapping[str, Any]) -> Html:
    percent = f"{100 * found['level']:g}%"
    columns = [
        Column("Pair"),
        Column("Class"),
        Column("Estimate"),
        Column("Gap measured", "signed", digits=4, why=_FEW),
        Column(f"{percent} bound (betting)", "number", digits=4, why=_NONE, help=_EXACT),
        *(
            Column(f"{percent} bound ({name})", "number", digits=4, why=_FEW, help=words)
            for name, words in KINDS.values()
        ),
    ]
    rows: list[list[Child]] = []
    for pair in found["pairs"]:
        for key, words in _ESTIMATORS.items():
            if key not in pair:
                continue
            values = pair[key] or {}
            name = f"{pair['a']} \N{MINUS SIGN} {pair['b']}"
            gap = values.get("gap", pair.get("gap") if key == "pooled" else None)
            betting = (pair.get("betting") or {}).get("bound") if key == "pooled" else None
            bounds = [betting, *(values.get(k) for k in KINDS)]
            rows.append([name, pair["class"], words, gap, *bounds])
    limit = "" if found["limit"] is None else f"; the limit is {plain(found['limit'])}"
    whole = table(columns, rows, caption=f"The true gap is below the bound{limit}")
    return folded(whole, len(rows), "pairs of groups in a table")


def _rates(found: Mapping[str, Any]) -> Html:
    percent, lines = f"{100 * found['level']:g}%", found["rates"]["lines"]
    always = bool(found["rates"].get("audits"))
    how = "by betting, at all times together" if always else "exact (Clopper and Pearson)"
    columns = [
        Column("Compared"),
        Column("Rows"),
        Column("Difference of rates", "signed", digits=4, why=_NONE),
        Column(f"{percent} bound", "number", digits=4, help=how),
        *(
            [Column("all bounds together", "number", digits=4, help="hold at once (Bonferroni)")]
            if len(lines) > 1
            else []
        ),
    ]
    rows: list[list[Child]] = [
        [
            line["name"],
            f"{line['rows_a']:,} and {line['rows_b']:,}",
            line["gap"],
            line["bound"],
            *([line["together"]] if len(lines) > 1 else []),
        ]
        for line in lines
    ]
    limit = found["rates"]["limit"]
    ends = "" if limit is None else f"; the target is {plain(limit)}"
    whole = table(columns, rows, caption=f"The true difference of rates is below the bound{ends}")
    return folded(whole, len(rows), "differences of rates in a table")


def certificate_text(description: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """certificate.md: the certificate for readers who do not know the run."""
    found = metrics["certificate"]
    schema = description.get("schema", {})
    answer = {True: "certified", False: "not certified", None: "no certificate"}[found["met"]]
    rates = found.get("rates", {}).get("lines", [])
    if found["met"] is None and (rates or any(found["bounds"].values())):
        answer = "measured"
    lines = [
        "# Certificate of fairness between groups",
        "",
        *(line for one in map(str, metrics.get("notes", ())) if too_good(one)
          for line in (f"**Given away.** {one[:1].upper()}{one[1:]}.", "")),
        f"**{answer.capitalize()}.** {found['statement']}",
        "",
        f"- Model: predicts `{schema.get('label')}`, trained by `{description.get('method')}` on "
        f"{metrics['train'].get('rows') or 0:,} rows of {metrics['clients']} parties.",
        f"- Groups compared (column `{schema.get('group')}`): "
        f"{', '.join(map(str, description.get('groups', [])))}.",
        f"- Class within which they are compared: {description.get('protected_class')}.",
        f"- Made by FairSilo {__version__} from `metrics.json` beside this file.",
    ]  # fmt: skip
    percent = f"{100 * found['level']:g}%"
    if rates:
        lines += ["", "## Decisions", "", "| compared | rows | difference of rates | bound | all "
                  "bounds together |", "|---|---|---|---|---|"]  # fmt: skip
        lines += [_rate_line(one) for one in rates]
        lines += [
            "",
            f"The true difference is at most the bound with at least {percent} confidence, for any "
            "number of rows (Clopper and Pearson). The last column holds for all lines at once.",
        ]
    if found["pairs"]:
        head = "| pair | class | estimate | rows | gap | betting | Chebyshev | Cantelli | normal |"
        lines += ["", "## Losses", "", head, "|---" * 9 + "|"]
        lines += [_line(pair, key) for pair in found["pairs"] for key in _ESTIMATORS if key in pair]
        lines += [
            "",
            f"The last four columns are bounds of the true gap with {percent} confidence. The one "
            "by betting holds for any distribution of the losses and any number of rows, where a "
            f"loss above {found.get('clip') or 5:g} counts as that; the others are approximate.",
        ]
    if found["assumes"]:
        lines += ["", "## What it assumes", "", *(f"- {one}" for one in found["assumes"])]
        lines += [
            "",
            "## What it does not say",
            "",
            "- It speaks of the compared groups within the named class, and of nobody else.",
        ]
    return "\n".join(lines) + "\n"


def _line(pair: Mapping[str, Any], key: str) -> str:
    values = pair[key] or {}
    pooled = key == "pooled"
    gap = values.get("gap", pair.get("gap") if pooled else None)
    betting = (pair.get("betting") or {}).get("bound") if pooled else None
    shown = [_shown(v) for v in (gap, betting, *(values.get(k) for k in KINDS))]
    name = f"{pair['a']} \N{MINUS SIGN} {pair['b']}".replace("|", "\\|")
    rows = f"{pair['rows_a']:,} and {pair['rows_b']:,}"
    return f"| {' | '.join([name, str(pair['class']), _ESTIMATORS[key], rows, *shown])} |"


def _rate_line(line: Mapping[str, Any]) -> str:
    name, rows = line["name"].replace("|", "\\|"), f"{line['rows_a']:,} and {line['rows_b']:,}"
    values = (_shown(line[key]) for key in ("gap", "bound", "together"))
    return f"| {' | '.join([name, rows, *values])} |"


def _shown(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:.4f}"
