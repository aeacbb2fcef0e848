"""Any model, audited over silos through its answers, which lie in columns of the silos' tables.

Which columns is said in the silo's own settings, not in the question: a server that could name
them could have any column of the table tallied.

    classes         predicted classes alone: rates
    probabilities   probabilities, too: rates and losses
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.evidence import Evidence, Gaps
from fairsilo.evaluate.tally import Tally
from fairsilo.flower.charter import Charter
from fairsilo.flower.rows import Part
from fairsilo.flower.settings import Settings

CLASSES, PROBABILITIES = "classes", "probabilities"
COLUMNS = (CLASSES, PROBABILITIES)


def has_columns(settings: Settings, order: str) -> bool:
    """Whether the silo's settings name what is asked for."""
    classes = settings.audit_predictions is not None
    return bool(settings.audit_probability) or (order == CLASSES and classes)


def column_evidence(settings: Settings, charter: Charter, order: str, part: Part) -> Floats:
    """Tallies of the model whose answers are in the silo's own columns, less its small cells."""
    # Here, because silos that train need none of the auditor.
    from fairsilo.auditor.answers import of_columns
    from fairsilo.auditor.rows import Rows

    nobody = np.zeros(len(part.y), np.int64)
    rows = Rows(
        part.frame, charter.table, part.y, part.s, nobody, (settings.name,), charter.pairs,
        charter.groups, (charter.protected_class,), "", None,
    )  # fmt: skip
    answers = of_columns(settings.audit_predictions, settings.audit_probability, rows)
    losses = answers.losses if order == PROBABILITIES else np.zeros(len(part.y))
    groups, classes = charter.shape
    tally = Tally.of(part.y, part.s, answers.predicted, losses, groups=groups, classes=classes)
    return Evidence.of_silo(tally, charter.pairs, settings.minimum_cell).to_vector()


def without_losses(evidence: Evidence) -> Evidence:
    """Evidence of predicted classes alone: NaN for the losses that nobody knows."""
    tally, gaps = evidence.tally, evidence.losses
    unknown = np.where(tally.cells > 0, np.nan, 0.0)
    return Evidence(
        Tally(tally.counts, unknown, unknown),
        Gaps(gaps.silos, np.where(gaps.silos > 0, np.nan, 0.0), gaps.sure, gaps.variance),
        evidence.rates,
        evidence.hidden,
    )


def check_columns(settings: Settings, charter: Charter, part: Part) -> str:
    """What is wrong with the columns that the settings name; nothing if nothing is."""
    order = PROBABILITIES if settings.audit_probability else CLASSES
    try:
        if has_columns(settings, order):
            column_evidence(settings, charter, order, part)
    except FairSiloError as error:
        return str(error)
    return ""
