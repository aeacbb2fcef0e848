"""Two runs on the same test rows: what changes from one model to the other, row by row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.auditor.options import AuditOptions
from fairsilo.auditor.rows import options_of_run, split_of_run, table_of
from fairsilo.coded import Table
from fairsilo.data import DATASETS, Schema, build_labels
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.paired import (
    Change,
    mean_change,
    mean_gap_change,
    rate_change,
    rate_gap_change,
)
from fairsilo.partition import TEST
from fairsilo.predictor.base import Predictor
from fairsilo.run import load
from fairsilo.run.made import data_digest


@dataclass(frozen=True, eq=False)
class Tested:
    """The test rows of a run, and its model."""

    schema: Schema
    predictor: Predictor
    x: Table
    y: Ints
    s: Ints
    predicted: Ints
    losses: Floats
    digest: str
    """SHA-256 of which rows of which data these are."""

    def claimed(self, claim: str) -> Floats:
        """The losses, were all rows of this class."""
        told = np.full_like(self.y, self.schema.classes.index(claim))
        return self.predictor.losses(self.x, told, self.s)


def tested(folder: Path, data: str, data_dir: Path | None) -> Tested:
    """Read a run's data again; what keeps its test rows from being known is an error."""
    saved = load(folder)
    if "network" in saved.metrics:
        raise FairSiloError(f"{folder} was trained over a network, where test rows stay in silos")
    if len(saved.predictors) > 1:
        raise FairSiloError(f"{folder} has one model for every client")
    if saved.description.get("options", {}).get("weight") is not None:
        raise FairSiloError(f"{folder} has rows with weights, and a paired test counts rows")
    if data not in DATASETS and not (data and Path(data).exists()):
        told = data or "its table"
        raise FairSiloError(f"the rows of {folder} ({told}) are not here: say with `data` where")
    digest, known = data_digest(data), saved.description.get("made", {}).get("data_sha256")
    if known not in (None, digest):
        raise FairSiloError(f"{data} is not the table of {folder}: its digest differs")
    options = AuditOptions(data=data, model=folder, data_dir=data_dir)
    trained = options_of_run(options, saved)
    frame, schema = table_of(options, saved, trained)
    y, s = build_labels(frame, schema)
    client = split_of_run(saved, trained, frame, y, s)
    if client is None:
        raise FairSiloError(f"{data} is not the table of {folder}: its rows are others")
    test = client == TEST
    x, y, s = saved.encoder.encode(frame[test]), y[test], s[test]
    (model,) = saved.predictors
    return Tested(
        schema, model, x, y, s,
        predicted=model.labels(x, s, trained.seed),
        losses=model.losses(x, y, s),
        digest=hashlib.sha256((digest or data).encode() + np.packbits(test).tobytes()).hexdigest(),
    )  # fmt: skip


def changes(old: Tested, new: Tested, compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the new model changes, by the comparisons of the old one."""
    right = [one.predicted == one.y for one in (new, old)]
    return {
        "rows": len(old.y),
        "accuracy": _told(rate_change(*right)),
        "loss": _told(mean_change(new.losses - old.losses)),
        "gaps": [_gap(old, new, one) for one in compared],
    }


def _gap(old: Tested, new: Tested, one: Mapping[str, Any]) -> dict[str, Any]:
    """The change of one comparison, in rates and in losses."""
    claim, schema = one["claim"], old.schema
    within = np.isin(old.y, [schema.classes.index(name) for name in one["classes"]])
    a, b = (within & np.isin(old.s, _places(schema.groups, one[side])) for side in ("a", "b"))
    if claim is None:
        hits = [two.predicted == two.y for two in (new, old)]
        apart = new.losses - old.losses
    else:
        hits = [two.predicted == schema.classes.index(claim) for two in (new, old)]
        apart = new.claimed(claim) - old.claimed(claim)

    def on(side: Mask) -> tuple[Mask, Mask]:
        return hits[0][side], hits[1][side]

    alone = not one["b"]
    return {
        "a": list(one["a"]),
        "b": list(one["b"]),
        "classes": list(one["classes"]),
        "claim": claim,
        "rate": None if alone else _told(rate_gap_change(on(a), on(b))),
        "loss": _told(mean_gap_change(apart[a], None if alone else apart[b])),
    }


def _places(groups: Sequence[str], names: Sequence[str]) -> list[int]:
    return [groups.index(name) for name in names]


def _told(found: Change | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "change": found.value,
        "interval": [found.interval.low, found.interval.high],
        "p": found.p,
    }
