"""Predictors as arrays and back, to the last bit: what the run folder keeps.

Post-processing wraps a base predictor, so that a kind is a path from the outermost wrapper to the
model, such as `equalized_odds/plain`; wrapper number k keeps its arrays under `k.`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo
from fairsilo.model.base import Model
from fairsilo.predictor.base import HALF, Plain, Predictor
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds

Tensors = dict[str, np.ndarray]
WRAPPERS: dict[str, tuple[type[EqualizedOdds] | type[Calibrated], tuple[str, str]]] = {
    "equalized_odds": (EqualizedOdds, ("p2p", "n2p")),
    "calibrated": (Calibrated, ("mix", "base_rate")),
}
"""By name, the class of a wrapper and its two arrays."""


def to_tensors(predictors: Sequence[Predictor]) -> tuple[str, Tensors]:
    """The kind of the predictors, which all have the same, and their arrays, stacked."""
    kinds: list[str] = []
    tensors: Tensors = {}
    level = list(predictors)
    while not isinstance(level[0], Plain):
        name = next(name for name, (kind, _) in WRAPPERS.items() if isinstance(level[0], kind))
        wrapper, arrays = WRAPPERS[name]
        layer = [one for one in level if isinstance(one, wrapper)]
        assert len(layer) == len(level)
        for array in arrays:
            tensors[f"{len(kinds)}.{array}"] = np.stack([getattr(one, array) for one in layer])
        pairs = [(one.pair.a, one.pair.b, one.pair.c) for one in layer]
        tensors[f"{len(kinds)}.pair"] = np.array(pairs, np.int64)
        tensors[f"{len(kinds)}.stream"] = np.array([one.stream for one in layer], np.int64)
        kinds.append(name)
        level = [one.base for one in layer]
    models = [one for one in level if isinstance(one, Plain)]
    tensors["theta"] = np.stack([one.theta for one in models])
    if any(one.cut != HALF for one in models):
        tensors["cut"] = np.array([one.cut for one in models])
    return "/".join([*kinds, "plain"]), tensors


def from_tensors(
    kind: str, model: Model, tensors: Mapping[str, np.ndarray]
) -> tuple[Predictor, ...]:
    """The predictors that `to_tensors` took apart."""
    *kinds, innermost = kind.split("/")
    try:
        if innermost != "plain":
            raise KeyError(innermost)
        thetas = tensors["theta"]
        cuts = tensors.get("cut", np.full(len(thetas), HALF)).tolist()
        level: list[Predictor] = [
            Plain(model, theta, cut) for theta, cut in zip(thetas, cuts, strict=True)
        ]
        for k, name in reversed(list(enumerate(kinds))):
            wrapper, arrays = WRAPPERS[name]
            columns = [tensors[f"{k}.{key}"] for key in ("pair", *arrays, "stream")]
            level = [
                wrapper(base, Dgeo(*map(int, pair)), one, other, int(stream))
                for base, pair, one, other, stream in zip(level, *columns, strict=True)
            ]
    except (KeyError, ValueError):
        raise FairSiloError(
            f"the saved model of kind {kind!r} is damaged or from another version: train again"
        ) from None
    return tuple(level)
