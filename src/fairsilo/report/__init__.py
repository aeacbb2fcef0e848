"""Report: one self-contained HTML page per run, and the blocks that other pages are built from.

    run_page(description, metrics, history)   report.html of a run folder
    card(description, metrics, use)           the model card as plain data; card_markdown as text
    audit_page(found)                         audit.html, from audit.json
    certificate_text(description, metrics)    certificate.md

`blocks` has the parts of a page (page, section, table, ...), `charts` the charts.

Strings are text and get escaped; only `Html` is markup. Charts are SVG drawn in Python (plotly.js
alone is 4.8 MB, needs its script to show anything, and neither prints nor follows dark mode); the
page's script adds tooltips, keyboard and sorting, and its Content-Security-Policy forbids requests.
"""

from fairsilo.report.audit import audit_page
from fairsilo.report.card import card
from fairsilo.report.card_text import card_markdown
from fairsilo.report.run import run_page
from fairsilo.report.sections.certificate import certificate_text

__all__ = ["audit_page", "card", "card_markdown", "certificate_text", "run_page"]
