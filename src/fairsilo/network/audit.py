"""Measure a model on the silos' rows: one question, their evidence summed.

What follows from the sum is `fairsilo.auditor`'s, as in simulation.
"""

from __future__ import annotations

from typing import Any

from fairsilo.auditor.answers import NO_LOSSES
from fairsilo.auditor.by_notion import with_rates
from fairsilo.auditor.document import Subject, document
from fairsilo.auditor.promise import promised
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.audit import Auditor
from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import accuracy, dgeo_pooled, loss
from fairsilo.network.aggregate import Aggregate
from fairsilo.network.audit_columns import (
    CLASSES,
    COLUMNS,
    Answers,
    audited,
    audited_classes,
    unfitted,
)
from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.lies import refuse_implausible
from fairsilo.network.transport import need
from fairsilo.network.wire import Ask
from fairsilo.predictor.base import Plain
from fairsilo.predictor.thresholds import Thresholds
from fairsilo.question import Evaluate, Problem
from fairsilo.question.plausible import Known
from fairsilo.run import Saved
from fairsilo.run.choices import choose
from fairsilo.run.problem import Posed, plan


def audit(
    agreed: FederationFile, gather: Aggregate, silos: tuple[str, ...], saved: Saved
) -> dict[str, Any]:
    """audit.json of a saved run's model on the silos' rows of today."""
    model = saved.predictors[0]
    plain = model.base if isinstance(model, Thresholds) else model
    if len(saved.predictors) != 1 or not isinstance(plain, Plain):
        raise FairSiloError("an audit over silos is for runs with one plain model: fedfair, fedavg")
    table, own = agreed.table, saved.schema
    same = own.features == table.features and own.classes == table.classes
    if not same or own.label != table.label or plain.model.name != agreed.model:
        raise FairSiloError("the model was trained on another table or kind than the federation's")
    title = f"the {saved.description.get('method')} run"
    question = Evaluate.of([model], test_only=agreed.dp is not None, audit=True)
    return _found(agreed, gather, silos, question, agreed.posed(saved.encoder), title, saved)


def audit_columns(
    agreed: FederationFile, gather: Aggregate, silos: tuple[str, ...], what: str
) -> dict[str, Any]:
    """audit.json of any model, whose answers lie in columns of the silos' tables: `foreign`."""
    choose("columns", what, COLUMNS)
    title = "the model whose answers are in the silos' tables"
    question = Answers(what, test_only=agreed.dp is not None)
    return _found(agreed, gather, silos, question, agreed.posed(unfitted(agreed)), title)


def _found(
    agreed: FederationFile,
    gather: Aggregate,
    silos: tuple[str, ...],
    question: Evaluate | Answers,
    posed: Posed,
    title: str,
    saved: Saved | None = None,
) -> dict[str, Any]:
    """Ask, add, conclude."""
    problem = audited(agreed, plan(agreed.options(), posed))
    pairs, table = problem.cell_pairs, agreed.table
    names = Names(table.groups, table.classes, table.group, table.label)
    limits = (None,) * len(pairs) if saved is None else promised(saved, pairs, names)
    ask = Ask(
        question, 1, agreed.fingerprint, "audit", encoded=True, scalings=scalings_of(posed.encoder)
    )
    collected = gather.collect(ask, silos, question.length(problem))
    need(collected.silos, agreed.minimum_silos, collected.faults)
    refuse_implausible(question, problem, collected.vector, Known(), 1, collected.silos)
    train, test = question.read(problem, collected.vector)
    notes = [NO_LOSSES] if isinstance(question, Answers) and question.what == CLASSES else []
    subject = Subject(
        model=title,
        data=agreed.name,
        which="the silos' own test rows",
        # The silos' tables may have changed since training, and with them the rows drawn.
        unseen=None,
        label=agreed.table.label,
        group=agreed.table.group,
        groups=posed.groups,
        protected=audited_classes(agreed),
        limits=limits,
        silos=len(collected.silos),
        min_cell=None,
        notion=with_rates(agreed.notion),
        target_deo=agreed.target_deo,
    )
    absent = {name: fault.why for name, fault in collected.faults.items()}
    notes += [f"silo {name} {why}" for name, why in absent.items()]
    auditor = Auditor(pairs, names)
    return {
        **document(subject, auditor, test, notes),
        "network": {
            "fingerprint": agreed.fingerprint,
            "secure_aggregation": gather.secure,
            "silos": list(collected.silos),
            "absent": absent,
        },
        **({} if train is None else {"train": _training(train, problem)}),
    }


def _training(train: Evidence, problem: Problem) -> dict[str, Any]:
    return {
        "rows": int(train.tally.counts.sum()),
        "loss": loss(train.tally),
        "accuracy": accuracy(train.tally),
        "dgeo_pooled": dgeo_pooled(train.tally, problem.constraints),
    }
