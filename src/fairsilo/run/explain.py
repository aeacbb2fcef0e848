"""Which terms made the scores of a row: for models whose scores are sums."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.coded import Table
from fairsilo.data import read_table
from fairsilo.data.asked import only
from fairsilo.data.binned import Block
from fairsilo.data.dialect import Dialect
from fairsilo.errors import FairSiloError, FairSiloWarning
from fairsilo.predictor.base import Plain
from fairsilo.run.predict import kept_columns, unseen_in
from fairsilo.run.store import load
from fairsilo.run.terms import blocks_of, scores_of

BLOCK = 1 << 15
"""Rows that are multiplied at a time."""


def explain_table(
    folder: Path, data: Path, dialect: Dialect | None = None, keep: Sequence[str] = ()
) -> pd.DataFrame:
    """For every row what each term adds to the log-odds of the second class, and the sum.

    Of several classes the same of every class's score (`run.terms`), one class after the other.
    `dialect`: how a CSV file is written; None is as the run's own table was. `keep`: columns of
    the table that go before the terms, such as ids. Values that training never saw are warned of.
    """
    saved = load(folder)
    model = saved.predictors[0]
    if len(saved.predictors) > 1 or not isinstance(model, Plain) or not model.model.linear:
        raise FairSiloError(
            f"the model in {folder} is no single sum of terms: train with `model` lr or additive, "
            "and `method` fedfair, lco, fedavg or af"
        )
    choice, outputs = only(*saved.schema.columns, *keep), model.model.outputs
    frame = read_table(data, saved.schema, dialect or saved.dialect, choice)
    x, classes = saved.encoder.encode(frame), saved.schema.classes
    blocks = blocks_of(saved.encoder)
    found: dict[str, Floats] = {}
    for k, own in enumerate(scores_of(model.theta, outputs).T):
        name, total = ("", f"log-odds {classes[1]}")
        if outputs > 1:
            name, total = f"{classes[k]}: ", f"score {classes[k]}"
        found[f"{name}intercept"] = np.full(len(frame), own[0])
        parts = _added(x, own[1:], blocks)
        found |= {f"{name}{one.name}": part for one, part in zip(blocks, parts, strict=True)}
        found[total] = own[0] + parts.sum(axis=0)
    for name in keep:
        if name in found:
            raise FairSiloError(
                f"`keep` names {name!r}, and a column of terms has that name: leave it out, or "
                "keep a copy of it with another name"
            )
    for words in unseen_in(saved, frame):
        warnings.warn(words, FairSiloWarning, stacklevel=2)
    return pd.DataFrame({**kept_columns(frame, keep), **found}, copy=False)


def _added(x: Table, heights: Floats, blocks: Sequence[Block]) -> Floats:
    """What each term adds to the score of every row, (terms, rows): a look-up of every code."""
    each = np.zeros((len(heights), len(blocks)))
    for k, block in enumerate(blocks):
        each[block.places, k] = heights[block.places]
    found = np.empty((len(blocks), len(x)))
    for start in range(0, len(x), BLOCK):
        found[:, start : start + BLOCK] = (x[start : start + BLOCK] @ each).T
    return found
