"""Load a run folder, from the command line or a network, as a fitted estimator."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.errors import FairSiloError
from fairsilo.estimator.classifier import FedFairClassifier
from fairsilo.estimator.declared import bounds_of
from fairsilo.estimator.fitted_state import Kept
from fairsilo.report.sections.facts import Facts
from fairsilo.run import store

PARAMETERS = (
    *("method", "after", "model", "solver", "estimator"),
    *("against", "pool", "notion", "target_deo", "target_by", "target_confidence"),
    *("decide_at", "early_stopping", "penalty", "pairs", "dp_epsilon", "dp_delta"),
    "dp_clip",
)
"""The options of a run that are also parameters of the estimator."""


def load(folder: str | Path) -> FedFairClassifier:
    """Read the run folder that `fairsilo train` or a network run wrote as a fitted classifier.

    It predicts like `fairsilo predict`, from a DataFrame with the feature columns in the order of
    training. If all classes are whole numbers, they are integers, as in the table; otherwise they
    are texts. `fit` trains again with the parameters of the run.
    """
    folder = Path(folder)
    saved = store.load(folder)
    described, trained = saved.description, saved.description["trained"]
    classes = _values(saved.schema.classes)
    options = described["options"]
    declared: dict[str, Any] = {}
    if "dp_split" in options:
        declared["dp_split"] = tuple(options["dp_split"])
    if options.get("dp_epsilon") is not None:
        clients = list(described["client_names"])
        declared |= {"bounds": bounds_of(saved.schema), "classes": list(classes)}
        declared |= {"client_names": clients}
    clf = FedFairClassifier(
        _epsilon(described),
        **{name: options[name] for name in PARAMETERS if name in options},
        protected_class=_protected(saved, classes),
        groups=list(described["groups"]),
        max_rounds=options["rounds"],
        random_state=options["seed"],
        class_weight=_costs(options.get("class_weight"), classes),
        maximum_weight=options.get("maximum_weight"),
        **declared,
    )
    clf.classes_ = classes
    clf.feature_names_in_ = np.array(saved.schema.columns, dtype=object)
    clf.n_features_in_ = len(saved.schema.columns)
    clf.clients_ = np.array(described["client_names"], dtype=object)
    clf.n_iter_ = trained["rounds"]
    clf.converged_ = trained["converged"]
    clf.reason_ = trained["reason"]
    clf.dp_ = saved.metrics.get("dp")
    clf.history_ = _history(folder / "history.parquet")
    clf.constraints_ = _constraints(described, clf.history_)
    named = [options[name] for name in ("model", "method", "seed")]
    clf._described = {key: value for key, value in described.items() if key != "kind"}
    clf._keep_model(Kept.of(saved.encoder, saved.predictors, *named))
    return clf


def _costs(given: Any, classes: npt.NDArray[Any]) -> Any:
    """The weights of classes, which a run folder names as texts."""
    if given is None or isinstance(given, str):
        return given
    values = {str(value): value for value in classes.tolist()}
    return {values.get(name, name): weight for name, weight in given}


def _values(classes: Sequence[str]) -> npt.NDArray[Any]:
    """The classes as in the user's table; a run folder stores them as text."""
    try:
        whole = [int(name) for name in classes]
    except ValueError:
        return np.array(classes, dtype=object)
    same = [str(number) for number in whole] == list(classes)
    return np.array(whole) if same else np.array(classes, dtype=object)


def _epsilon(described: Mapping[str, Any]) -> Any:
    """The limit; if single pairs have their own, a dict of all limits."""
    options = described["options"]
    if not options.get("epsilons"):
        return options["epsilon"] if options.get("target_deo") is None else None
    return {
        (one["a"][0], one["b"][0]) if len(one["b"]) == 1 else one["a"][0]: one["epsilon"]
        for one in described["compared"]
    }


def _protected(saved: store.Saved, classes: npt.NDArray[Any]) -> Any:
    """The protected class as a value of `classes_`, or a list of several."""
    names, values = list(saved.schema.classes), classes.tolist()
    found = [values[names.index(one)] for one in saved.protected]
    return found if len(found) > 1 else found[0]


def _history(path: Path) -> pd.DataFrame:
    """One row per round, without the columns of bytes."""
    try:
        frame = pd.read_parquet(io.BytesIO(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise FairSiloError(f"{path} cannot be read ({error}): train again") from None
    return frame.drop(columns=["bytes_up", "bytes_down"], errors="ignore")


def _constraints(described: Mapping[str, Any], history: pd.DataFrame) -> pd.DataFrame:
    """What each constraint compares, and D and multiplier of the last round.

    If the method limits nothing, only the names are set. With one limit per client (lco), there is
    a row for each client and limit.
    """
    names = Facts(described, {}, history).compared_names
    d = [name for name in history.columns if name.startswith("d_")]
    mu = [name for name in history.columns if name.startswith("mu_")]
    if not d or not len(history):
        unset = dict.fromkeys(("D", "epsilon", "multiplier"), np.nan)
        return pd.DataFrame({"compared": names, **unset})
    last = history.iloc[-1]
    columns: dict[str, Any] = {"compared": names * (len(d) // max(len(names), 1))}
    if len(d) > len(names):
        columns = {"client": np.repeat(described["client_names"], len(names)), **columns}
    limits = [one["epsilon"] for one in described.get("compared", ())] or [described["epsilon"]]
    repeated = np.resize(np.array(limits, dtype=np.float64), len(d))
    columns |= {"D": last[d].to_numpy(float), "epsilon": repeated}
    return pd.DataFrame({**columns, "multiplier": last[mu].to_numpy(float)})
