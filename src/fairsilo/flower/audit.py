"""Measure a trained model anew on the silos' rows: one question, tallies summed over silos."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.evaluate.metrics import accuracy, dgeo_pooled, loss
from fairsilo.flower.charter import Charter
from fairsilo.flower.gather import Gather
from fairsilo.flower.post import need
from fairsilo.flower.result import evaluated
from fairsilo.flower.vectors import evidence_from_vector, length_of
from fairsilo.flower.wire import Ask
from fairsilo.method.base import Plain
from fairsilo.run import Saved

AUDIT = "audit.json"


def audit(charter: Charter, gather: Gather, silos: tuple[str, ...], saved: Saved) -> dict[str, Any]:
    """Metrics of a saved run's model on the silos' training and test rows of today."""
    model = saved.predictors[0]
    if len(saved.predictors) != 1 or not isinstance(model, Plain):
        raise FairSiloError("an audit over silos is for runs with one plain model: fedfair, fedavg")
    if saved.schema != charter.table or model.model.name != charter.model:
        raise FairSiloError("the model was trained on another table or kind than the federation's")
    rows = [[s.mean, s.scale, float(s.missing)] for s in saved.encoder.scalings]
    ask = Ask(
        kind="evaluate",
        number=1,
        fingerprint=charter.fingerprint,
        purpose="audit",
        scalings=np.array(rows, np.float64).reshape(-1),
        theta=model.theta,
    )
    length = length_of("evaluate", "", charter, model.model.size)
    collected = gather.collect(ask, silos, length)
    need(collected.silos, charter.minimum_silos, collected.faults)
    train, test = (one.tally for one in evidence_from_vector(collected.vector, charter))
    return {
        "fingerprint": charter.fingerprint,
        "secure_aggregation": gather.secure,
        "silos": list(collected.silos),
        "absent": {name: fault.why for name, fault in collected.faults.items()},
        "train": {
            "rows": int(train.counts.sum()),
            "loss": loss(train),
            "accuracy": accuracy(train),
            "dgeo_pooled": dgeo_pooled(train, charter.pairs),
        },
        "test": evaluated(charter, test),
    }
