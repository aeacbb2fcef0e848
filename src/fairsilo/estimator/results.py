"""What a fitted classifier says beyond its predictions, and how it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from fairsilo.arrays import Floats
from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.fitted_state import Kept
from fairsilo.estimator.inputs import sensitive_of
from fairsilo.estimator.outcome import Fitted
from fairsilo.estimator.picture import Picture
from fairsilo.run import store
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.train import Run
from fairsilo.solver import Status


class Results:
    """Methods of the classifier that need nothing but `predict` and what `fit` kept."""

    classes_: npt.NDArray[Any]
    dp_: Any
    history_: pd.DataFrame
    _kept: Kept
    _described: dict[str, Any]

    def predict_log_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """Logarithms of the class probabilities; parameters as for `predict`."""
        p = self.predict_proba(X, sensitive_features=sensitive_features)  # type: ignore[attr-defined]
        with np.errstate(divide="ignore"):
            found: Floats = np.log(p)
        return found

    def score_by_group(self, X: Any, y: Any, *, sensitive_features: Any) -> pd.DataFrame:
        """For every group of these rows: how many, accuracy, and the share found of each class.

        Rows without a group are the line "(none)".
        """
        said = self.predict(X, sensitive_features=sensitive_features)  # type: ignore[attr-defined]
        groups = sensitive_of(sensitive_features, len(said))[0]
        named = groups.astype(object).where(groups.notna(), "(none)").astype(str)
        y = np.asarray(y)
        right = pd.Series(said == y)
        found = pd.DataFrame({"rows": right.groupby(named).size()})
        found["accuracy"] = right.groupby(named).mean()
        for one in self.classes_:
            of = pd.Series(y == one)
            found[f"found {one}"] = right[of].groupby(named[of]).mean()
        return found.rename_axis("group")

    def plot(self) -> Picture:
        """A picture of the model: what every term adds to the log-odds, as in report.html.

        A notebook shows it, and its method `save` writes one HTML file. For ``lr`` and
        ``additive`` with two classes. What the model without the limit would say, with its 95 %
        bands, is drawn beside it where fitting went by that model: with ``penalty="auto"``, the
        default of ``additive``. The picture of ``method="fedavg"`` has bands in any case.
        """
        check_is_fitted(self)
        with as_value_errors():
            return Picture(self._described)

    def save(self, folder: str | Path) -> None:
        """Write a run folder without figures: for `fairsilo.load`, `predict` and `export`."""
        check_is_fitted(self)
        kept, metrics = self._kept, {"method": self._kept.method}
        if self.dp_ is not None:
            metrics["dp"] = self.dp_
        about = {**self._described, "kind": kept.kind}
        store.write_model(Path(folder), about, kept.tensors, metrics, self.history_)


def described(options: Options, prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    """What model.json says of a fit, but for the kind of its model; plain data."""
    outcome, names = fitted.trained.outcome, prepared.client_names
    run = Run(options, prepared, names, fitted.trained, {"epsilon": options.epsilon})
    trained = {
        "solver": options.solver_name, "estimator": options.estimator, "clients": len(names),
        "rounds": outcome.rounds, "converged": outcome.status is Status.CONVERGED,
        "reason": fitted.reason,
    }  # fmt: skip
    return {
        **store.about(options, prepared),
        "epsilon": options.epsilon,
        "compared": store.compared(run),
        "trained": trained,
        "client_names": list(names),
        **({"terms": fitted.terms} if fitted.terms else {}),
    }
