"""The data that a fitted estimator needs to predict: models as arrays, and the encoder.

It holds no training rows. Unlike the functions inside a model, it can be pickled and copied.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.coded import Table
from fairsilo.data import Encoder
from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.inputs import group_indices, sensitive_of
from fairsilo.model import MODELS, Model
from fairsilo.predictor import Plain, Predictor
from fairsilo.predictor.committee import Committee
from fairsilo.predictor.saved import Tensors, from_tensors, to_tensors
from fairsilo.run.store import Saved


@dataclass(frozen=True, eq=False)
class Kept:
    """Encoder and models; `kind` and `tensors` are as in the run folder."""

    encoder: Encoder
    model: str
    make: Callable[[int, int], Model]
    """The model's own function: the name may stand for another one by now."""
    kind: str
    tensors: Tensors
    method: str
    seed: int

    @classmethod
    def of(
        cls, encoder: Encoder, predictors: Sequence[Predictor], model: str, method: str, seed: int
    ) -> Kept:
        """Convert the predictors to arrays."""
        return cls(encoder, model, MODELS[model], *to_tensors(predictors), method, seed)

    def committee(self) -> Committee:
        """Rebuild the predictors from the arrays."""
        classes = len(self.encoder.schema.classes)
        model = self.make(len(self.encoder.feature_names), classes)
        return Committee(from_tensors(self.kind, model, self.tensors), classes)

    def plain(self) -> Plain | None:
        """The single plain model, or None."""
        members = self.committee().members
        only = members[0]
        return only if len(members) == 1 and isinstance(only, Plain) else None

    def saved(self) -> Saved:
        """As if read from a run folder, without figures."""
        members, schema = tuple(self.committee().members), self.encoder.schema
        return Saved(members, self.encoder, schema, {"method": self.method}, {})

    def encode(self, frame: pd.DataFrame) -> Table:
        """The rows as the model takes them, with a warning for values that training never saw."""
        with as_value_errors():
            for name, count in self.encoder.unseen(frame).items():
                warnings.warn(
                    f"column {name!r} of X has {count} values that training never saw; they count "
                    "as none of the known ones",
                    UserWarning,
                    stacklevel=4,
                )
            return self.encoder.encode(frame)

    def groups(self, sensitive_features: Any, rows: int) -> Ints:
        """The groups of the rows; zeros if the method does not predict by group."""
        if sensitive_features is not None:
            series, _ = sensitive_of(sensitive_features, rows)
            if self.kind != "plain":
                schema = self.encoder.schema
                return group_indices(series, schema.groups, schema.pooled)
        elif self.kind != "plain":
            raise ValueError(
                f"method {self.method!r} treats groups apart but sensitive_features is missing: "
                "pass sensitive_features=... to predict, predict_proba and score"
            )
        return np.zeros(rows, np.int64)
