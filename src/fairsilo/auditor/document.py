"""Add the silos' evidence and derive the findings from the sum: audit.json and audit.html."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo import __version__
from fairsilo.auditor.answers import NO_LOSSES, Answers, of_columns, of_run
from fairsilo.auditor.by_notion import constraints_of, rate_gaps, with_rates
from fairsilo.auditor.onnx import of_onnx
from fairsilo.auditor.options import AuditOptions
from fairsilo.auditor.promise import promised
from fairsilo.auditor.rows import Rows, read_rows
from fairsilo.data import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.audit import Auditor
from fairsilo.evaluate.betting import wagers_on
from fairsilo.evaluate.certificate import Names, certify, refuse
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.intervals import FEWEST
from fairsilo.evaluate.rates import certify_rates, joined
from fairsilo.evaluate.worth import worth
from fairsilo.fairness import DEFAULT, NOTIONS, Constraint
from fairsilo.report import audit_page
from fairsilo.run import Saved, load

FORMAT = 1
UNWEIGHTED = (
    "the run counts rows by their weight, and this audit counts every row as one: its figures are "
    "others than those of the run"
)
PICKLES = (".pkl", ".pickle", ".joblib", ".skops", ".dill", ".pt", ".pth")

Document = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """The audited model and the rows: the head of the document."""

    model: str
    data: str
    which: str
    unseen: bool | None
    label: str
    group: str
    groups: Sequence[str]
    protected: Sequence[str]
    limits: Sequence[float | None]
    """The limit on DGEO of every pair; None if a pair has no limit."""
    silos: int
    min_cell: int | None
    """The fewest rows of a cell that is counted; None if every silo has its own minimum."""
    notion: str = DEFAULT.name
    """How rates are compared."""
    target_deo: float | None = None
    """The limit on gaps in rates."""
    model_sha256: str | None = None
    """Of the model's file; None where there is none, as of columns or over a network."""

    @property
    def limit(self) -> float | None:
        """The strictest of the limits."""
        return min((one for one in self.limits if one is not None), default=None)


def execute(options: AuditOptions, limited: bool = False) -> Document:
    """Read the rows, predict, tally silo by silo, sum, and derive findings; writes nothing.

    `limited`: refuse an audit without a limit.
    """
    saved = _run(options.model)
    rows = read_rows(options, saved)
    if not len(rows.y):
        raise FairSiloError(f"there are no rows to audit ({rows.which}): give more rows")
    schema = rows.schema
    names = Names(schema.groups, schema.classes, schema.group, schema.label)
    own = {} if saved is None else saved.metrics
    trained_by = with_rates(own.get("notion"))
    # Limits of one notion say nothing of the gaps of another.
    same = options.notion in (None, trained_by)
    limits = (
        promised(saved, rows.pairs, names)
        if saved is not None and same and options.epsilon is None
        else (options.epsilon,) * len(rows.pairs)
    )
    target = options.target_deo
    if target is None and options.epsilon is None and same:
        target = own.get("target_deo")
    if limited and target is None and all(one is None for one in limits):
        raise FairSiloError("`fail_on` needs a limit: give `target_deo` or `epsilon`")
    if saved is not None:
        answers, model = of_run(saved, rows, options.seed), f"run {Path(options.model or '').name}"
        if saved.description.get("options", {}).get("weight") is not None:
            answers = replace(answers, notes=(*answers.notes, UNWEIGHTED))
        limit = own.get("epsilon"), own.get("target_deo")
        asked = options.epsilon, options.target_deo
        if not same and any(one is not None for one in limit) and asked == (None, None):
            note = (
                f"the run's limit is for {trained_by}, not for {options.notion}: give `target_deo`"
            )
            answers = replace(answers, notes=(*answers.notes, note))
    elif options.model is not None:
        answers, model = of_onnx(options.model, rows, options.features), options.model.name
    else:
        answers = of_columns(options.predictions, options.probability, rows)
        named = [*([options.predictions] if options.predictions else []), *options.probability]
        model = f"column {' and '.join(map(repr, named))}"
    auditor = Auditor(rows.pairs, names, options.level, options.draws, options.seed)
    return examine(
        rows, answers, auditor, limits, options.min_cell,
        model=model, data=Path(options.data).name, label=rows.schema.label,
        group=rows.schema.group, notion=options.notion or trained_by,
        target_deo=target, model_sha256=_digest(options.model),
    )  # fmt: skip


def examine(
    rows: Rows,
    answers: Answers,
    auditor: Auditor,
    limits: Sequence[float | None],
    min_cell: int,
    **named: Any,
) -> Document:
    """Sum the evidence that each silo computes from its own rows; `named` is for `Subject`."""
    subject = Subject(
        **named,
        which=rows.which,
        unseen=rows.unseen,
        groups=rows.groups,
        protected=rows.protected,
        limits=limits,
        silos=len(rows.silos),
        min_cell=min_cell,
    )
    shape: dict[str, Any] = {"groups": len(rows.schema.groups), "classes": len(rows.schema.classes)}
    order = np.argsort(rows.owner, kind="stable")
    cuts = np.flatnonzero(np.diff(rows.owner[order])) + 1
    tallies = (
        Tally.of(rows.y[of], rows.s[of], answers.predicted[of], answers.losses[of], **shape)
        for of in np.split(order, cuts)
    )
    evidence = reduce(add, (Evidence.of_silo(one, rows.pairs, min_cell) for one in tallies))
    if np.isfinite(answers.losses).any() and rows.pairs:
        each = (
            wagers_on(answers.losses[of], rows.y[of], rows.s[of], rows.pairs, min_cell)
            for of in np.split(order, cuts)
        )
        evidence = replace(evidence, wagers=reduce(add, each))
    return document(subject, auditor, evidence, answers.notes)


def document(
    subject: Subject, auditor: Auditor, evidence: Evidence, notes: Sequence[str] = ()
) -> Document:
    """The content of audit.json; the same in simulation and over a network."""
    names = auditor.names
    limited = [p for p, one in zip(auditor.pairs, subject.limits, strict=True) if one is not None]
    constraints: Sequence[Constraint] = limited or auditor.pairs
    if subject.target_deo is not None or not NOTIONS[subject.notion].within_classes:
        constraints = constraints_of(subject.notion, names, subject.groups, subject.protected)
    if subject.unseen is False:
        why = "it was trained on rows of this audit, and on those a gap can be small by training"
        certificate = refuse(why, subject.limit, auditor.level)
    else:
        if NO_LOSSES in notes:
            why = "a limit is on losses, and without probabilities there are none"
            certificate = refuse(why, subject.limit, auditor.level)
            certificate["rows"] = int(evidence.tally.counts.sum())
        else:
            certificate = certify(
                evidence, auditor.pairs, names, subject.limits,
                by_silo=True, level=auditor.level, unseen=subject.unseen is True,
            )  # fmt: skip
        said = names.spoken
        rates = certify_rates(
            evidence.tally, constraints, said.groups, said.classes, subject.target_deo,
            auditor.level, evidence.hidden,
        )  # fmt: skip
        certificate = joined(certificate, rates, subject.unseen is True)
    found = auditor.findings(evidence)
    common = int(np.argmax(evidence.tally.cells.sum(axis=0)))
    return {
        "format": FORMAT,
        "fairsilo": __version__,
        **vars(subject),
        "limit": subject.limit,
        "limits": list(subject.limits),
        "groups": list(subject.groups),
        "protected": list(subject.protected),
        "classes": list(auditor.names.classes),
        **found,
        "worth": worth(evidence.tally.effective, names.spoken.classes, common),
        "rates": rate_gaps(evidence, constraints, names, auditor.level),
        "certificate": certificate,
        "notes": [*notes, *_notes(subject, evidence, found)],
    }


def write(found: Document, folder: Path) -> None:
    """Write audit.json and audit.html, each atomically."""
    content = (json.dumps(found, indent=2, allow_nan=False) + "\n").encode()
    write_atomic(folder / "audit.json", content)
    write_atomic(folder / "audit.html", audit_page(found).encode())


def _run(model: Path | None) -> Saved | None:
    """Read a run folder; None if the path is not a run folder."""
    if model is None:
        return None
    if model.is_dir():
        return load(model)
    if model.suffix.lower() in PICKLES:
        raise FairSiloError(
            f"`model` {model} can run any program when it is loaded, so it is not: write its "
            "predictions into a column (`predictions`, `probability`), export it to ONNX, or use "
            "fairsilo.audit in Python"
        )
    if not model.exists():
        raise FairSiloError(f"`model` {model} does not exist: give a run folder or an .onnx file")
    if model.suffix.lower() != ".onnx":
        raise FairSiloError(f"`model` {model} is neither a run folder nor an .onnx file")
    return None


def _digest(model: Path | None) -> str | None:
    """The SHA-256 of the model's file: a name can be given to another model."""
    if model is None:
        return None
    file = model / "model.safetensors" if model.is_dir() else model
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _notes(subject: Subject, evidence: Evidence, found: Document) -> list[str]:
    notes = []
    if subject.unseen is False:
        notes.append(
            "training saw rows of this audit: the figures say how the model treats these rows, and "
            "little about other people"
        )
    free = sum(one is None for one in subject.limits)
    if subject.limit is not None and free:
        notes.append(
            f"{free} of {len(subject.limits)} pairs are compared without a limit: the run promised "
            "none for them, and the certificate is about the others"
        )
    hidden = int(evidence.hidden.sum())
    if hidden:
        least = (
            "rows than the silo's own minimum"
            if subject.min_cell is None
            else f"than {subject.min_cell} rows"
        )
        notes.append(
            f"{hidden} cells (a group and class in a silo) have fewer {least} and are left out "
            "there; what is estimated is without these rows"
        )
    gaps, pairs = (evidence.rates, evidence.losses), range(len(found["pairs"]))
    if any(g.mean(k) is not None and g.variance_of_mean(k) is None for g in gaps for k in pairs):
        notes.append(
            "a silo has a single row of a group and class, so how sure the mean of silos is cannot "
            "be said: `min_cell` 2 leaves such cells out"
        )
    cells = [min(pair["rows_a"], pair["rows_b"]) for pair in found["pairs"]]
    if cells and 0 < min(cells) < FEWEST:
        notes.append(
            f"a group has only {min(cells)} rows in a protected class: with fewer than {FEWEST} an "
            "estimated variance says little, so that the normal and Chebyshev's intervals are left "
            "out; Newcombe's, and the certificate's bounds, need no such number"
        )
    if any(not cell for cell in cells):
        notes.append("a group has no row in a protected class, so its gaps are undefined")
    return notes
