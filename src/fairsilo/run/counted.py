"""The curvature of an additive model from the rows in its columns, which are released already.

With m the share of the rows in every column (1 of the intercept), the Hessian of L at theta = 0 is
E[xx'] / 4. If features were independent, E[xx'] would be mm' off their blocks and diag(m) in them.
Features that go together pull harder in the same direction, so the diagonal counts twice:

    B = (mm' + 2 diag(m)) / 4

Where that is still too little, the solver notices (`solver.noisy`). A cell of a pair has the share
that independent features would give it.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.data.encoder import Encoder
from fairsilo.model.base import Model

TOGETHER = 2.0
"""How many times the diagonal counts. Validation rows of ADULT hardly tell 1 from 3; with nine
copies of two columns 1 costs a point of accuracy, 2 nothing."""


def curvature_of(encoder: Encoder, rows: tuple[Floats, ...], model: Model) -> Floats:
    """B for the rows in every column of each feature."""
    assert encoder.binned is not None
    shares = [np.maximum(own, 1.0) / max(own.sum(), 1.0) for own in rows]
    for pair in encoder.binned.pairs:
        first = _coarse(shares[pair.first], pair.rows)
        second = _coarse(shares[pair.second], pair.columns)
        shares.append(np.outer(first, second).ravel())
    m = np.concatenate([[1.0], *shares])
    # Of several scores, probabilities 1 / classes: at most that for each of them.
    each = np.eye(model.outputs) * (0.25 if model.outputs == 1 else 1 / model.classes)
    return np.asarray(np.kron(np.outer(m, m) + TOGETHER * np.diag(m), each), np.float64)


def _coarse(share: Floats, places: tuple[int, ...]) -> Floats:
    index: Ints = np.array(places)
    return np.bincount(index, share).astype(np.float64)
