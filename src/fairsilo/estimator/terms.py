"""The terms of a model whose scores are sums, as a table: what every value adds to a score.

`height` is the model's own coefficient. The picture (`run.terms`) draws every term around its mean
instead, so that what it knows beside the heights (the model without the limit and its band) is
moved here as far as the heights are: height less without_limit is the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import Encoder
from fairsilo.run.terms import blocks_of, labels_in_words

BESIDE = {"low": "low", "high": "high", "without_limit": "free"}
"""The columns that not every model has, and their names in model.json."""


def terms_of(
    encoder: Encoder, theta: Floats, outputs: int, described: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """One row for every column of the encoder; of several classes these columns for each.

    `described`: the terms as in model.json. The heights of a term and the intercept are determined
    together up to a shift between them.
    """
    blocks, heights = blocks_of(encoder), np.asarray(theta).reshape(-1, outputs)[1:]
    told = {(one["name"], one.get("class")): one for one in described}
    columns: dict[str, list[Any]] = {
        "term": [block.name for block in blocks for _ in block.labels],
        "value": [label for block in blocks for label in _values(labels_in_words(block, blocks))],
    }
    classes = [None] if outputs == 1 else encoder.schema.classes
    for figure in ("height", *BESIDE, "importance"):
        for k, name in enumerate(classes):
            columns[figure if name is None else f"{figure} {name}"] = [
                value
                for one in blocks
                for value in _figure(figure, heights[one.places, k], told.get((one.name, name)))
            ]
    return pd.DataFrame(columns)


def _values(labels: Any) -> list[str]:
    """A cell of a pair by both of its sides."""
    if isinstance(labels[0], str):
        return list(labels)
    return [f"{row} & {column}" for row in labels[0] for column in labels[1]]


def _figure(figure: str, height: Floats, one: Mapping[str, Any] | None) -> Floats:
    """A column of one term, NaN where it is not known."""
    if figure == "height":
        return height
    unknown = np.full(len(height), np.nan)
    if one is None:
        return unknown
    if figure == "importance":
        return np.full(len(height), one["importance"])
    stored: Floats = np.asarray(one.get(BESIDE[figure], unknown), np.float64)
    return stored + (height - np.asarray(one["height"], np.float64))
