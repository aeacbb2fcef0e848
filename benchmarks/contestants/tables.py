"""Classifiers of tables, without a limit and with equal true-positive rates; on one core.

    python tables.py NAME FOLDER

FOLDER has train, validation and test as Parquet files: the features, and y, group, client. Writes
FOLDER/NAME.npz: for every setting the probabilities (free) or labels (fair) of the other two parts.
"""

import sys
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SIZES = (4, 7, 15, 31, 63)
"""Leaves of a tree."""
DEPTHS = (2, 3, 4, 6, 8)
"""Of XGBoost's trees."""
TREES = 2000
"""The most; training stops when the validation loss has not fallen for fifty."""
TARGETS = (0.01, 0.02)
"""Limits on the difference of true-positive rates."""
PARTS = ("train", "validation", "test")
Told = Iterator[tuple[str, str, Any]]
"""Kind (free, fair), setting, and a function from a part to probabilities or labels."""


class Tables:
    """The three parts, with categories as pandas has them."""

    def __init__(self, folder: Path) -> None:
        whole = {part: pd.read_parquet(folder / f"{part}.parquet") for part in PARTS}
        self.y = {part: one.pop("y").to_numpy() for part, one in whole.items()}
        self.s = {part: one.pop("group").astype(str).to_numpy() for part, one in whole.items()}
        self.client = {part: one.pop("client") for part, one in whole.items()}
        self.text = whole
        numbers = whole["train"].select_dtypes("number").columns
        names = [name for name in whole["train"] if name not in numbers]
        known = {name: sorted(whole["train"][name].unique()) for name in names}
        kinds = {name: pd.CategoricalDtype(values) for name, values in known.items()}
        self.x = {part: one.astype(kinds) for part, one in whole.items()}


def ours(
    tables: Tables,
    penalties: tuple[float | None, ...] = (None,),
    crossed: tuple[int | None, ...] = (None,),
    **model: Any,
) -> Told:
    """Settings are the penalty, for models whose default is none, the pairs, and the target."""
    from fairsilo import FedFairClassifier

    x, y, s = (one["train"] for one in (tables.text, tables.y, tables.s))
    who = {"sensitive_features": s, "clients": tables.client["train"]}

    def fitted(**more: Any) -> Any:
        trained = FedFairClassifier(**model, **more).fit(x, y, **who)
        return lambda part: trained.predict_proba(tables.text[part])[:, 1]

    for penalty, pairs in product(penalties, crossed):
        one = {"penalty": penalty, "pairs": pairs}
        setting = f"penalty {penalty}" + ("" if pairs is None else f" pairs {pairs}")
        yield "free", setting, fitted(method="fedavg", **one)
        for target in TARGETS:
            found = fitted(target_deo=target, **one)
            yield "fair", f"{setting} target {target}", lambda part, f=found: f(part) > 0.5


def lightgbm(tables: Tables) -> Told:
    for leaves, model in _lightgbm(tables):
        yield "free", str(leaves), lambda part, m=model: m.predict_proba(tables.x[part])[:, 1]


def _lightgbm(tables: Tables) -> Iterator[tuple[int, Any]]:
    import lightgbm as lgb

    aside = [(tables.x["validation"], tables.y["validation"])]
    for leaves in SIZES:
        model = lgb.LGBMClassifier(
            n_estimators=TREES, learning_rate=0.05, num_leaves=leaves, n_jobs=1, verbose=-1
        )
        stop = [lgb.early_stopping(50, verbose=False)]
        model.fit(tables.x["train"], tables.y["train"], eval_set=aside, callbacks=stop)
        yield leaves, model


def lightgbm_thresholds(tables: Tables) -> Told:
    """fairlearn's thresholds by group, fitted on the validation rows."""
    from fairlearn.postprocessing import ThresholdOptimizer

    best = min(_lightgbm(tables), key=lambda one: one[1].best_score_["valid_0"]["binary_logloss"])
    for tolerance in (0.0, *TARGETS):
        model = ThresholdOptimizer(
            estimator=best[1], constraints="true_positive_rate_parity", tol=tolerance,
            objective="accuracy_score", prefit=True, predict_method="predict_proba",
        )  # fmt: skip
        aside = tables.s["validation"]
        model.fit(tables.x["validation"], tables.y["validation"], sensitive_features=aside)
        yield (
            "fair",
            str(tolerance),
            lambda part, m=model: m.predict(
                tables.x[part], sensitive_features=tables.s[part], random_state=0
            ),
        )


def lightgbm_reductions(tables: Tables) -> Told:
    """fairlearn's ExponentiatedGradient over the best LightGBM: a lottery of up to 50 of them.

    Its bound is on each group's distance to the rate of both together: the smaller group is away
    by the larger one's share of their difference.
    """
    import lightgbm as lgb
    from fairlearn.reductions import ExponentiatedGradient, TruePositiveRateParity

    leaves, best = min(
        _lightgbm(tables), key=lambda one: one[1].best_score_["valid_0"]["binary_logloss"]
    )
    y, s = tables.y["train"], tables.s["train"]
    share = pd.Series(s[y == 1]).value_counts(normalize=True).max()
    for target in TARGETS:
        base = lgb.LGBMClassifier(
            n_estimators=best.best_iteration_, learning_rate=0.05, num_leaves=leaves, n_jobs=1,
            verbose=-1,
        )  # fmt: skip
        bound = TruePositiveRateParity(difference_bound=share * target)
        model = ExponentiatedGradient(base, bound)
        model.fit(tables.x["train"], y, sensitive_features=s)
        yield "fair", str(target), lambda part, m=model: m.predict(tables.x[part], random_state=0)


def xgboost(tables: Tables) -> Told:
    import xgboost as xgb

    aside = [(tables.x["validation"], tables.y["validation"])]
    for depth in DEPTHS:
        model = xgb.XGBClassifier(
            n_estimators=TREES, learning_rate=0.05, max_depth=depth, n_jobs=1,
            enable_categorical=True, early_stopping_rounds=50, tree_method="hist",
        )  # fmt: skip
        model.fit(tables.x["train"], tables.y["train"], eval_set=aside, verbose=False)
        yield "free", str(depth), lambda part, m=model: m.predict_proba(tables.x[part])[:, 1]


def ebm(tables: Tables) -> Told:
    from interpret.glassbox import ExplainableBoostingClassifier

    for pairs in (0, 10):
        model = ExplainableBoostingClassifier(interactions=pairs, n_jobs=1, random_state=0)
        model.fit(tables.text["train"], tables.y["train"])
        yield "free", str(pairs), lambda part, m=model: m.predict_proba(tables.text[part])[:, 1]


def fairgbm(tables: Tables) -> Told:
    from fairgbm import FairGBMClassifier

    groups = np.unique(tables.s["train"], return_inverse=True)[1]
    for leaves, rate, trees in product(SIZES, (0.005, 0.05, 0.5), (50, 100, 300)):
        model = FairGBMClassifier(
            constraint_type="FNR", n_estimators=trees, learning_rate=0.05, num_leaves=leaves,
            multiplier_learning_rate=rate, n_jobs=1, random_state=0,
        )  # fmt: skip
        model.fit(tables.x["train"], tables.y["train"], constraint_group=groups)
        setting = f"{leaves} leaves {trees} trees rate {rate}"
        yield "fair", setting, lambda part, m=model: m.predict_proba(tables.x[part])[:, -1] > 0.5


CONTESTANTS = {
    "lr": lambda tables: ours(tables, (None, 1.0)),
    "mlp": lambda tables: ours(tables, (None, 1.0), model="mlp"),
    "additive": lambda tables: ours(tables, crossed=(0,), model="additive"),
    "additive-pairs": lambda tables: ours(tables, crossed=(10, 20), model="additive"),
    "lightgbm": lightgbm,
    "lightgbm-thresholds": lightgbm_thresholds,
    "lightgbm-reductions": lightgbm_reductions,
    "xgboost": xgboost,
    "ebm": ebm,
    "fairgbm": fairgbm,
}


def main(name: str, folder: Path) -> None:
    """Train every setting and write what it says of the other two parts."""
    warnings.simplefilter("ignore")
    found = {
        f"{kind}/{setting}/{part}": np.asarray(say(part), np.float64)
        for kind, setting, say in CONTESTANTS[name](Tables(folder))
        for part in PARTS[1:]
    }
    np.savez_compressed(folder / f"{name}.npz", **found)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
