"""What `fit` was given, as training needs it: rows, classes, groups, clients, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import _check_sample_weight, check_consistent_length

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.data.schema import Feature
from fairsilo.data.weights import declared_weights
from fairsilo.dp import Mechanism
from fairsilo.errors import FairSiloError
from fairsilo.estimator.declared import (
    declared_classes,
    declared_clients,
    declared_features,
    declared_groups,
    known_rows,
    read_as,
)
from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.inputs import classes_of, clients_of, sensitive_of, table_of
from fairsilo.estimator.problem import Compared, prepare, warn_of_nobody
from fairsilo.estimator.settings import options_of, without_limits
from fairsilo.method import METHODS
from fairsilo.method.fedavg import fedavg
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.private import mechanism_of
from fairsilo.threshold import FEWEST

if TYPE_CHECKING:
    from fairsilo.estimator.classifier import FedFairClassifier

WEIGHT, LABEL = "sample_weight", "label"


@dataclass(frozen=True)
class Given:
    """The rows to train on, and the options."""

    options: Options
    frame: pd.DataFrame
    codes: Ints
    """The index of each row's class."""
    classes: Sequence[Any]
    compared: Compared
    holders: tuple[Ints, tuple[str, ...]]
    """The client of every row, and their names."""
    weight: Floats | None
    declared: tuple[Feature, ...] | None = None
    mechanism: Mechanism | None = None
    label: str = LABEL
    """What y is called."""

    def only(self, rows: Mask) -> Given:
        """Some of the rows."""
        return replace(
            self,
            frame=self.frame[rows].reset_index(drop=True),
            codes=self.codes[rows],
            compared=replace(self.compared, s=self.compared.s[rows]),
            holders=(self.holders[0][rows], self.holders[1]),
            weight=None if self.weight is None else self.weight[rows],
        )

    def prepare(self) -> Prepared:
        """Encoded, and dealt out to their clients."""
        rows = (self.frame, self.codes, self.classes, self.compared, self.holders)
        return prepare(
            *rows, self.options, self.declared, self.mechanism, self.weight, label=self.label
        )


def given(
    estimator: FedFairClassifier,
    X: Any,
    y: Any,
    sensitive_features: Any,
    clients: Any,
    sample_weight: Any,
) -> Given:
    """Check and convert the arguments of `fit`; sets `classes_` and the names of X's columns."""
    options = options_of(estimator.get_params(deep=False), weighted=sample_weight is not None)
    private = options.dp_epsilon is not None
    # y before X: validating y alone makes scikit-learn forget the names of X's columns.
    read = declared_classes(estimator.classes, y) if private else classes_of(estimator, y)
    estimator.classes_, codes = read
    frame = table_of(estimator, X, reset=True)
    check_consistent_length(frame, codes)
    weight = None if sample_weight is None else _weights(sample_weight, frame, options)
    with as_value_errors():
        if private:
            holders = declared_clients(clients, len(frame), estimator.client_names)
        else:
            holders = clients_of(clients, len(frame), options.method)
        compared = _compared(estimator, sensitive_features, len(frame), options)
        if not compared.protected and METHODS[options.method].shared:
            options = without_limits(options, fedavg.name)
        classes = estimator.classes_.tolist()
        rows = Given(options, frame, codes, classes, compared, holders, weight, label=_label_of(y))
        if not private:
            return rows if weight is None or weight.all() else rows.only(weight > 0)
        # A sum over fewer than three clients does not hide their values.
        noise = "shared" if len(holders[1]) >= FEWEST else "full"
        options = replace(options, dp_noise=noise)
        declared = declared_features(frame, estimator.bounds)
        rows = rows.only(known_rows(codes, holders[0]))
        return replace(
            rows,
            options=options,
            frame=read_as(rows.frame, declared),
            declared=declared,
            mechanism=mechanism_of(options),
        )


def _label_of(y: Any) -> str:
    """The name of y, where it has one."""
    name = getattr(y, "name", None) if isinstance(y, pd.Series) else None
    return name if isinstance(name, str) and name else LABEL


def _weights(sample_weight: Any, frame: pd.DataFrame, options: Options) -> Floats:
    """A weight for every row, not all of them zero; a private fit refuses none."""
    if options.maximum_weight is not None:
        table = pd.DataFrame({WEIGHT: np.asarray(sample_weight)})
        check_consistent_length(frame, table)
        return declared_weights(table, WEIGHT, options.maximum_weight)
    weight: Floats = _check_sample_weight(
        sample_weight, frame, dtype=np.float64, ensure_non_negative=True, copy=True
    )
    return weight


def _compared(
    estimator: FedFairClassifier, sensitive_features: Any, rows: int, options: Options
) -> Compared:
    """The groups of the rows and their constraints; without groups there are none."""
    method, private = options.method, options.dp_epsilon is not None
    if sensitive_features is None:
        warn_of_nobody(method)
        return Compared.nobody(rows)
    compared = (declared_groups if private else Compared.of)(
        *sensitive_of(sensitive_features, rows),
        estimator.classes_.tolist(),
        groups=estimator.groups,
        protected_class=estimator.protected_class,
    )
    if METHODS[method].one_pair and len(compared.protected) > 1:
        raise FairSiloError(
            f"method {method!r} has one protected_class but {estimator.protected_class!r} are "
            "several: name one, or use method='fedfair'"
        )
    return compared
