"""The page of a single run, made from the contents of its folder alone."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fairsilo.report.blocks import page
from fairsilo.report.sections.breakdown import pays
from fairsilo.report.sections.cards import glance
from fairsilo.report.sections.certificate import certificate
from fairsilo.report.sections.curves import ranking
from fairsilo.report.sections.facts import Facts
from fairsilo.report.sections.fair import fair
from fairsilo.report.sections.settings import limits, settings
from fairsilo.report.sections.terms import terms
from fairsilo.report.sections.training import training
from fairsilo.report.sections.verdict import findings, headline, lead


def run_page(
    description: Mapping[str, Any], metrics: Mapping[str, Any], history: pd.DataFrame
) -> str:
    """report.html from model.json, metrics.json and history.parquet: one self-contained file."""
    facts = Facts(description, metrics, history)
    data = str(description.get("options", {}).get("data", ""))
    return page(
        headline(facts),
        [
            glance(facts),
            fair(facts),
            *([shown] if (shown := ranking(facts)) is not None else []),
            *([made] if (made := terms(description)) is not None else []),
            *([certificate(metrics["certificate"])] if "certificate" in metrics else []),
            *(make(facts) for make in (pays, training, settings, limits)),
        ],
        lead=lead(facts),
        eyebrow=" \N{MIDDLE DOT} ".join(filter(None, ("FairSilo", "training report", data))),
        header=findings(facts),
    )
