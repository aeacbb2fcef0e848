"""Measure a model on the silos' rows: one question, their evidence summed.

What follows from the sum is `fairsilo.auditor`'s, as in simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo.auditor.answers import NO_LOSSES
from fairsilo.auditor.document import Subject, document
from fairsilo.auditor.promise import promised
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.audit import Auditor
from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import accuracy, dgeo_pooled, loss
from fairsilo.flower.charter import Charter
from fairsilo.flower.foreign import CLASSES, COLUMNS, without_losses
from fairsilo.flower.gather import Gather
from fairsilo.flower.post import need
from fairsilo.flower.vectors import audited_from_vector, length_of
from fairsilo.flower.wire import Ask
from fairsilo.method.base import Plain
from fairsilo.run import Saved
from fairsilo.run.options import choose


def audit(charter: Charter, gather: Gather, silos: tuple[str, ...], saved: Saved) -> dict[str, Any]:
    """audit.json of a saved run's model on the silos' rows of today."""
    model = saved.predictors[0]
    if len(saved.predictors) != 1 or not isinstance(model, Plain):
        raise FairSiloError("an audit over silos is for runs with one plain model: fedfair, fedavg")
    if saved.schema != charter.table or model.model.name != charter.model:
        raise FairSiloError("the model was trained on another table or kind than the federation's")
    rows = [[s.mean, s.scale, float(s.missing)] for s in saved.encoder.scalings]
    ask = _ask(charter, scalings=np.array(rows, np.float64).reshape(-1), theta=model.theta)
    names = Names(charter.table.groups, charter.table.classes)
    limits = promised(saved, charter.pairs, names)
    title = f"the {saved.description.get('method')} run"
    return _found(charter, gather, silos, ask, title, limits)


def audit_columns(
    charter: Charter, gather: Gather, silos: tuple[str, ...], what: str
) -> dict[str, Any]:
    """audit.json of any model, whose answers lie in columns of the silos' tables: `foreign`."""
    choose("--columns", what, COLUMNS)
    title = "the model whose answers are in the silos' tables"
    return _found(
        charter, gather, silos, _ask(charter, order=what), title, (None,) * len(charter.pairs)
    )


def _ask(charter: Charter, **values: Any) -> Ask:
    return Ask("evaluate", 1, charter.fingerprint, purpose="audit", **values)


def _found(
    charter: Charter,
    gather: Gather,
    silos: tuple[str, ...],
    ask: Ask,
    title: str,
    limits: Sequence[float | None],
) -> dict[str, Any]:
    """Ask, add, conclude."""
    collected = gather.collect(ask, silos, length_of("audit", "", charter, 0))
    need(collected.silos, charter.minimum_silos, collected.faults)
    train, test = audited_from_vector(collected.vector, charter)
    notes = []
    if ask.order == CLASSES:
        train, test = None if train is None else without_losses(train), without_losses(test)
        notes.append(NO_LOSSES)
    subject = Subject(
        model=title,
        data=charter.name,
        which="the silos' own test rows",
        # The silos' tables may have changed since training, and with them the rows drawn.
        unseen=None,
        label=charter.table.label,
        group=charter.table.group,
        groups=charter.groups,
        protected=(charter.protected_class,),
        limits=limits,
        silos=len(collected.silos),
        min_cell=None,
    )
    absent = {name: fault.why for name, fault in collected.faults.items()}
    notes += [f"silo {name} {why}" for name, why in absent.items()]
    auditor = Auditor(charter.pairs, Names(charter.table.groups, charter.table.classes))
    return {
        **document(subject, auditor, test, notes),
        "network": {
            "fingerprint": charter.fingerprint,
            "secure_aggregation": gather.secure,
            "silos": list(collected.silos),
            "absent": absent,
        },
        **({} if train is None else {"train": _training(train, charter)}),
    }


def _training(train: Evidence, charter: Charter) -> dict[str, Any]:
    return {
        "rows": int(train.tally.counts.sum()),
        "loss": loss(train.tally),
        "accuracy": accuracy(train.tally),
        "dgeo_pooled": dgeo_pooled(train.tally, charter.pairs),
    }
