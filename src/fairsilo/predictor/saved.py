"""Predictors as arrays and back, to the last bit: what the run folder keeps.

Post-processing wraps a base predictor, so that a kind is a path from the outermost wrapper to the
model, such as `equalized_odds/plain`; wrapper number k keeps its arrays under `k.`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo
from fairsilo.model.base import Model
from fairsilo.predictor.base import HALF, Plain, Predictor
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds
from fairsilo.predictor.thresholds import Thresholds

Tensors = dict[str, np.ndarray]
WRAPPERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "equalized_odds": (EqualizedOdds, ("pair", "p2p", "n2p", "stream")),
    "calibrated": (Calibrated, ("pair", "mix", "base_rate", "stream")),
    "cut_by_group": (Thresholds, ("cuts",)),
}
"""By name, the class of a wrapper and what it has beside its base."""


def to_tensors(predictors: Sequence[Predictor]) -> tuple[str, Tensors]:
    """The kind of the predictors, which all have the same, and their arrays, stacked."""
    kinds: list[str] = []
    tensors: Tensors = {}
    level = list(predictors)
    while not isinstance(level[0], Plain):
        name = next(name for name, (kind, _) in WRAPPERS.items() if isinstance(level[0], kind))
        wrapper, arrays = WRAPPERS[name]
        layer: list[Any] = [one for one in level if isinstance(one, wrapper)]
        assert len(layer) == len(level)
        for array in arrays:
            values = [_as_array(getattr(one, array)) for one in layer]
            tensors[f"{len(kinds)}.{array}"] = np.stack(values)
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
            columns = [[_from_array(key, one) for one in tensors[f"{k}.{key}"]] for key in arrays]
            level = [wrapper(base, *own) for base, *own in zip(level, *columns, strict=True)]
    except (KeyError, ValueError):
        raise FairSiloError(
            f"the saved model of kind {kind!r} is damaged or from another version: train again"
        ) from None
    return tuple(level)


def _as_array(value: Any) -> np.ndarray:
    """An array as it is; a pair of groups or a number as one of whole numbers."""
    whole = (value.a, value.b, value.c) if isinstance(value, Dgeo) else value
    return whole if isinstance(whole, np.ndarray) else np.array(whole, np.int64)


def _from_array(key: str, value: np.ndarray) -> Any:
    if key == "pair":
        return Dgeo(*map(int, value))
    return int(value) if key == "stream" else value
