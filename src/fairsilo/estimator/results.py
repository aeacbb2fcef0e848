"""What a fitted classifier says beyond its predictions, and how it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from fairsilo.arrays import Floats, Ints
from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.fitted_state import Kept
from fairsilo.estimator.inputs import (
    clients_of,
    group_indices,
    same_length,
    sensitive_of,
    table_of,
)
from fairsilo.estimator.measured import Told
from fairsilo.estimator.outcome import Fitted
from fairsilo.estimator.picture import Page, Picture, Text
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
    _told: Told | None = None

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

    def to_run(self, folder: str | Path, X: Any, y: Any, **rows: Any) -> None:
        """Write a run folder as `fairsilo train` does, these being its test rows.

        Parameters are those of `report`. The folder has the model, every figure, report, card and
        certificate; all commands take it.
        """
        store.save(self._tested(X, y, **rows), Path(folder))

    def report(self, X: Any, y: Any, **rows: Any) -> Page:
        """The report on these rows, which the model must not have seen: a page.

        A notebook shows it, and its method `save` writes one HTML file. Needs
        `sensitive_features`; `clients` and `sample_weight` as in `fit`.
        """
        return Page(store.contents(self._tested(X, y, **rows))["report.html"].decode())

    def card(self, X: Any, y: Any, **rows: Any) -> Text:
        """The model card as Markdown; parameters are those of `report`."""
        return Text(store.contents(self._tested(X, y, **rows))["card.md"].decode())

    def _tested(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any,
        clients: Any = None,
        sample_weight: Any = None,
    ) -> Run:
        """The run with these test rows."""
        check_is_fitted(self)
        told, schema = self._told, self._kept.encoder.schema
        if told is None or not told.posed.constraints:
            raise ValueError(
                "there is no report: fit with sensitive_features first (a run that was loaded has "
                "its report in its folder)"
            )
        frame = table_of(self, X, reset=False)
        same_length("y", len(y), len(frame))
        codes = self._codes(y)
        groups = group_indices(
            sensitive_of(sensitive_features, len(frame))[0], schema.groups, schema.pooled
        )
        holders = None if clients is None else clients_of(clients, len(frame))[0]
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, frame, ensure_non_negative=True)
        with as_value_errors():
            x, terms = self._kept.encode(frame), self._described.get("terms", [])
            return told.run(self._kept, x, codes, groups, holders, weight, self.dp_, terms)

    def _codes(self, y: Any) -> Ints:
        """The index of each row's class."""
        place: Ints = pd.Index(self.classes_).get_indexer(np.asarray(y)).astype(np.int64)
        if (place < 0).any():
            unknown = np.asarray(y)[place < 0].tolist()[0]
            raise ValueError(f"y has the class {unknown!r}, which training never saw: correct it")
        return place

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
