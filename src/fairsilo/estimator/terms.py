"""The terms of an additive model as a table: what every step, value and cell adds to a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import Encoder


def terms_of(encoder: Encoder, theta: Floats, outputs: int) -> pd.DataFrame:
    """One row for every column of the encoder; of several classes a height for each.

    The heights of a term and the intercept are determined together up to a shift between them.
    """
    assert encoder.binned is not None
    blocks = encoder.binned.blocks(encoder.schema)
    heights = np.asarray(theta).reshape(-1, outputs)[1:]
    columns: dict[str, Any] = {
        "term": [block.name for block in blocks for _ in block.labels],
        "value": [label for block in blocks for label in block.labels],
    }
    names = ["height"] if outputs == 1 else [f"height {name}" for name in encoder.schema.classes]
    return pd.DataFrame(columns | dict(zip(names, heights.T, strict=True)))
