"""The encoder's numbers as they travel: scalings, and steps where the model has them."""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data.binned_vector import from_vector, to_vector
from fairsilo.data.encoder import Encoder, Scaling
from fairsilo.data.schema import Schema
from fairsilo.question import Unfit

OTHER_ENCODER = "the server's encoder does not fit the federation file"


def encoder_of(schema: Schema, scalings: Floats) -> Encoder:
    """The encoder whose numbers the server sent: scalings, and steps where the model has them."""
    plain = 3 * len(schema.numbers)
    if len(scalings) < plain or not np.isfinite(scalings).all():
        raise Unfit(OTHER_ENCODER)
    rows = scalings[:plain].reshape(-1, 3)
    if not (rows[:, 1] > 0).all():
        raise Unfit(OTHER_ENCODER)
    binned = None
    if len(scalings) > plain:
        try:
            binned = from_vector(scalings[plain:])
            binned.check(schema)
        except ValueError:
            raise Unfit(OTHER_ENCODER) from None
    every = tuple(Scaling(float(m), float(s), bool(b)) for m, s, b in rows)
    return Encoder(schema, every, binned)


def scalings_of(encoder: Encoder) -> Floats:
    """The encoder's numbers, as they travel."""
    rows = [[one.mean, one.scale, float(one.missing)] for one in encoder.scalings]
    steps = np.zeros(0) if encoder.binned is None else to_vector(encoder.binned)
    return np.concatenate([np.array(rows, np.float64).reshape(-1), steps])
