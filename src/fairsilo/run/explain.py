"""Which terms made the score of a row: for models whose score is a sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import read_table
from fairsilo.data.dialect import Dialect
from fairsilo.errors import FairSiloError
from fairsilo.predictor.base import Plain
from fairsilo.run.store import load
from fairsilo.run.terms import blocks_of


def explain_table(folder: Path, data: Path, dialect: Dialect | None = None) -> pd.DataFrame:
    """For every row what each term adds to the log-odds of the second class, and the sum.

    `dialect`: how a CSV file is written; None is as the run's own table was.
    """
    saved = load(folder)
    model = saved.predictors[0]
    sums = isinstance(model, Plain) and model.model.linear and model.model.outputs == 1
    if len(saved.predictors) > 1 or not isinstance(model, Plain) or not sums:
        raise FairSiloError(
            f"the model in {folder} is no single sum of terms for two classes: train with `model` "
            "lr or additive, and `method` fedfair, lco, fedavg or af"
        )
    frame = read_table(data, saved.schema, dialect or saved.dialect)
    theta: Floats = model.theta
    parts = saved.encoder.transform(frame) * theta[1:]
    columns = {"intercept": np.full(len(frame), theta[0])}
    for block in blocks_of(saved.encoder):
        columns[block.name] = parts[:, block.places].sum(axis=1)
    found = pd.DataFrame(columns)
    return found.assign(**{f"log-odds {saved.schema.classes[1]}": found.sum(axis=1)})
