"""Which terms made the score of a row: for models whose score is a sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import Encoder, read_table
from fairsilo.data.hot import width_of
from fairsilo.data.schema import Number
from fairsilo.errors import FairSiloError
from fairsilo.predictor.base import Plain
from fairsilo.run.store import load


def explain_table(folder: Path, data: Path) -> pd.DataFrame:
    """For every row what each term adds to the log-odds of the second class, and the sum."""
    saved = load(folder)
    model = saved.predictors[0]
    sums = isinstance(model, Plain) and model.model.linear and model.model.outputs == 1
    if len(saved.predictors) > 1 or not isinstance(model, Plain) or not sums:
        raise FairSiloError(
            f"the model in {folder} is no single sum of terms for two classes: train with `model` "
            "lr or additive, and `method` fedfair, lco, fedavg or af"
        )
    frame = read_table(data, saved.schema, saved.dialect)
    theta: Floats = model.theta
    parts = saved.encoder.transform(frame) * theta[1:]
    columns = {"intercept": np.full(len(frame), theta[0])}
    start = 0
    for name, width in terms(saved.encoder):
        columns[name] = parts[:, start : start + width].sum(axis=1)
        start += width
    found = pd.DataFrame(columns)
    return found.assign(**{f"log-odds {saved.schema.classes[1]}": found.sum(axis=1)})


def terms(encoder: Encoder) -> list[tuple[str, int]]:
    """The name of every term and how many encoded columns it has, in their order."""
    if encoder.binned is not None:
        return [(block.name, block.width) for block in encoder.binned.blocks(encoder.schema)]
    scalings = iter(encoder.scalings)
    return [
        (one.name, 1 + next(scalings).missing if isinstance(one, Number) else width_of(one))
        for one in encoder.schema.features
    ]
