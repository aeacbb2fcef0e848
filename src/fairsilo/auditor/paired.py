"""Two runs on the same test rows: what changes from one model to the other, row by row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.auditor.options import AuditOptions
from fairsilo.auditor.rows import options_of_run, split_of_run, table_of
from fairsilo.coded import Table
from fairsilo.data import DATASETS, Schema, build_labels
from fairsilo.data.columns import column, distinct
from fairsilo.data.weights import declared_weights, weights_in
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.paired import (
    Change,
    mean_change,
    mean_gap_change,
    rate_change,
    rate_gap_change,
)
from fairsilo.partition import TEST, marked_test
from fairsilo.predictor.base import Predictor
from fairsilo.run import Options, Saved, load
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
    weight: Floats | None = None
    which: str | None = None
    """Of a run over a network: which rows of the table were taken for its test rows."""

    def claimed(self, claim: str) -> Floats:
        """The losses, were all rows of this class."""
        told = np.full_like(self.y, self.schema.classes.index(claim))
        return self.predictor.losses(self.x, told, self.s)


def tested(folder: Path, given: str | None, data_dir: Path | None) -> Tested:
    """Read a run's data again; what keeps its test rows from being known is an error.

    `given`: where the data are, if not where the run found them.
    """
    saved = load(folder)
    afar = "network" in saved.metrics
    if afar and given is None:
        raise FairSiloError(
            f"{folder} was trained over a network: its test rows stay in the silos, and of sums "
            "nobody can tell which rows changed; name a table of test rows with `data`, or, where "
            "a silo's own table is, that"
        )
    if len(saved.predictors) > 1:
        raise FairSiloError(f"{folder} has one model for every client")
    data = given or str(saved.description.get("options", {}).get("data", ""))
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
    which = None
    if afar:
        test, which = _of_a_silo(frame, trained, data)
    else:
        client = split_of_run(saved, trained, frame, y, s)
        if client is None:
            raise FairSiloError(f"{data} is not the table of {folder}: its rows are others")
        test = client == TEST
    weight = _weights(frame, saved)
    test = test if weight is None else test & (weight > 0)
    if not test.any():
        raise FairSiloError(f"{data} has no test rows: name a table that has some with `data`")
    x, y, s = saved.encoder.encode(frame[test]), y[test], s[test]
    (model,) = saved.predictors
    return Tested(
        schema, model, x, y, s,
        predicted=model.labels(x, s, trained.seed),
        losses=model.losses(x, y, s),
        digest=hashlib.sha256((digest or data).encode() + np.packbits(test).tobytes()).hexdigest(),
        weight=None if weight is None else weight[test],
        which=which,
    )  # fmt: skip


def _weights(frame: pd.DataFrame, saved: Saved) -> Floats | None:
    """What the run's rows weigh, read as it read them."""
    told = saved.description.get("options", {})
    name, most = told.get("weight"), told.get("maximum_weight")
    if name is None:
        return None
    return weights_in(frame, name) if most is None else declared_weights(frame, name, most)


def _of_a_silo(frame: pd.DataFrame, trained: Options, data: str) -> tuple[Mask, str]:
    """Test rows of a table that need not be all silos': as the run's column of parts says."""
    if trained.split not in frame.columns:
        told = f"all rows of {data}: whether training saw them is not known"
        return np.ones(len(frame), np.bool_), told
    assert trained.split is not None
    chosen = marked_test(*distinct(column(frame, trained.split)), column=trained.split)
    return chosen, f"the rows of {data} that column {trained.split!r} calls test"


def changes(old: Tested, new: Tested, compared: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the new model changes, by the comparisons and the weights of the old one."""
    right, before = new.predicted == new.y, old.predicted == old.y
    return {
        "rows": len(old.y),
        "weighted": old.weight is not None,
        "apart": not _alike(old.weight, new.weight),
        "accuracy": _told(rate_change(right, before, old.weight)),
        "loss": _told(mean_change(new.losses - old.losses, old.weight)),
        "gaps": [_gap(old, new, one) for one in compared],
    }


def _alike(a: Floats | None, b: Floats | None) -> bool:
    """Whether rows weigh the same."""
    return a is b if a is None or b is None else bool(np.array_equal(a, b))


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

    alone, w = not one["b"], old.weight
    rates = None if w is None else [w[a], w[b]]
    losses = None if w is None else [w[a]] if alone else [w[a], w[b]]
    return {
        "a": list(one["a"]),
        "b": list(one["b"]),
        "classes": list(one["classes"]),
        "claim": claim,
        "rate": None if alone else _told(rate_gap_change(on(a), on(b), rates)),
        "loss": _told(mean_gap_change(apart[a], None if alone else apart[b], losses)),
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
