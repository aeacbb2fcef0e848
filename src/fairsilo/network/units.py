"""Other units, or another meaning: a silo's numeric columns against those of all silos together.

The encoder that the server sends has the federation's mean and spread of every column. The silo
compares its own training rows with them, for its owner; nothing of it leaves.
"""

from __future__ import annotations

import logging

import pandas as pd

from fairsilo.data.encoder import Encoder, EncoderSums, Scaling
from fairsilo.errors import FairSiloError

FAR = 1.5
"""Spreads of the federation between its mean and the silo's. One silo of four in grams, the others
in kilograms, lies sqrt(3) away; of N silos sqrt(N - 1)."""
WIDE = 5.0
"""How many times wider or narrower than the federation's the silo's spread is. It is what the three
others see: their own spread is a small part of all silos'."""


def remarks_of(encoder: Encoder, frame: pd.DataFrame) -> list[str]:
    """What the owner is told of such columns; the log, which stays with the silo, has numbers."""
    odd = odd_columns(encoder, frame)
    for name, all_, own in odd:
        logging.getLogger("flwr").warning(
            "fairsilo: %s (mean %.4g, spread %.4g)", sentence(name, all_), own.mean, own.scale
        )
    return [sentence(name, all_) for name, all_, _ in odd]


def odd_columns(encoder: Encoder, frame: pd.DataFrame) -> list[tuple[str, Scaling, Scaling]]:
    """The columns that look as if they were of other units: name, the federation's, the silo's."""
    schema = encoder.schema
    try:
        own = Encoder.fit(schema, EncoderSums.of(frame, schema)).scalings
    except FairSiloError:
        # Under differential privacy no cell may stop an answer; `check` tells of such cells.
        return []
    both = zip(schema.numbers, encoder.scalings, own, strict=True)
    return [(name, all_, one) for name, all_, one in both if _odd(all_, one, frame[name])]


def sentence(name: str, all_: Scaling) -> str:
    """For the owner, without a number of the silo's own."""
    return (
        f"column {name!r} has the mean {all_.mean:.4g} and the spread {all_.scale:.4g} over all "
        "silos, and this silo's are far from that: is it in other units here, or elsewhere, or "
        "does it mean something else? The silo's log has its own numbers"
    )


def _odd(all_: Scaling, one: Scaling, cells: pd.Series) -> bool:
    if cells.nunique() < 2:
        # A single value has no spread to compare; nor has a column that is empty here a mean.
        return bool(cells.notna().any()) and abs(one.mean - all_.mean) > FAR * all_.scale
    far = abs(one.mean - all_.mean) > FAR * all_.scale
    return far or not 1 / WIDE <= one.scale / all_.scale <= WIDE
