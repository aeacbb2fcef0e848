"""The certificate: the bound on the gap between the groups, and its assumptions.

It is a section of report.html and audit.html, and a document of its own, certificate.md.
"""

from collections.abc import Mapping
from typing import Any

from fairsilo import __version__
from fairsilo.report.blocks import Column, bullets, note, section, table
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import plain

KINDS = {
    "chebyshev": ("Chebyshev", "holds for losses of any distribution; the one that certifies"),
    "cantelli": ("Cantelli", "one-sided; holds under the same assumptions"),
    "normal": ("Normal", "an approximation; good where every group has 30 rows or more"),
}
_ESTIMATORS = {"pooled": "all rows together", "mean": "average over the silos"}
_FEW = "a group has fewer than two held-out rows of the class, or the losses are not known"


def certificate(found: Mapping[str, Any]) -> Html:
    """The section."""
    return section(
        "Certificate",
        note(str(found["statement"])),
        _table(found) if found["pairs"] else None,
        el("h3", "What it assumes") if found["assumes"] else None,
        bullets([str(one) for one in found["assumes"]]) if found["assumes"] else None,
        lead=(
            "How large the gap between the groups\u2019 average losses can be in the whole "
            "population, judged by rows that the model did not see."
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
            rows.append(
                [name, pair["class"], words, values.get("gap"), *(values.get(k) for k in KINDS)]
            )
    limit = "" if found["limit"] is None else f"; the limit is {plain(found['limit'])}"
    return table(columns, rows, caption=f"The true gap is below the bound{limit}")


def certificate_text(description: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """certificate.md: the certificate for readers who do not know the run."""
    found = metrics["certificate"]
    schema = description.get("schema", {})
    answer = {True: "certified", False: "not certified", None: "no certificate"}[found["met"]]
    if found["met"] is None and found["bounds"]["chebyshev"] is not None:
        answer = "measured"
    lines = [
        "# Certificate of fairness between groups",
        "",
        f"**{answer.capitalize()}.** {found['statement']}",
        "",
        f"- Model: predicts `{schema.get('label')}`, trained by `{description.get('method')}` on "
        f"{metrics['train'].get('rows') or 0:,} rows of {metrics['clients']} parties.",
        f"- Groups compared (column `{schema.get('group')}`): "
        f"{', '.join(map(str, description.get('groups', [])))}.",
        f"- Class within which they are compared: {description.get('protected_class')}.",
        f"- Made by FairSilo {__version__} from `metrics.json` beside this file.",
    ]
    if found["pairs"]:
        lines += ["", "| pair | class | estimate | rows | gap measured | Chebyshev | Cantelli "
                  "| normal |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
        lines += [_line(pair, key) for pair in found["pairs"] for key in _ESTIMATORS if key in pair]
        lines += [
            "",
            f"The last three columns are bounds: the true gap is below them with at least "
            f"{100 * found['level']:g}% confidence. Chebyshev\u2019s and Cantelli\u2019s hold "
            "whatever the distribution of the losses is; the normal one is an approximation.",
        ]
    if found["assumes"]:
        lines += ["", "## What it assumes", "", *(f"- {one}" for one in found["assumes"])]
        lines += [
            "",
            "## What it does not say",
            "",
            "- It speaks of losses (how surprised the model is by the truth) and not of decisions; "
            "how often people are recognised is in the report.",
            "- It speaks of the compared groups within the named class, and of nobody else.",
        ]
    return "\n".join(lines) + "\n"


def _line(pair: Mapping[str, Any], key: str) -> str:
    values = pair[key] or {}
    shown = ["\N{EN DASH}" if (v := values.get(k)) is None else f"{v:.4f}" for k in ("gap", *KINDS)]
    name = f"{pair['a']} \N{MINUS SIGN} {pair['b']}".replace("|", "\\|")
    rows = f"{pair['rows_a']:,} and {pair['rows_b']:,}"
    return f"| {' | '.join([name, str(pair['class']), _ESTIMATORS[key], rows, *shown])} |"
