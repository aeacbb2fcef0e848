"""The estimator inside the tools of scikit-learn and fairlearn."""

from __future__ import annotations

import doctest
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from fairlearn.metrics import MetricFrame, true_positive_rate
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import fairsilo
from fairsilo import FedFairClassifier
from fairsilo.estimator import classifier
from tests.estimator.data import table

T = table(300)


def test_clone_and_parameters() -> None:
    clf = FedFairClassifier(0.2, method="lco", groups=["g0", "g1"])
    twin = clone(clf).set_params(epsilon=0.3)
    assert twin.get_params() == {**clf.get_params(), "epsilon": 0.3}
    assert repr(twin) == "FedFairClassifier(epsilon=0.3, groups=['g0', 'g1'], method='lco')"


@pytest.mark.slow
def test_pickle_keeps_the_model_and_no_training_row() -> None:
    big, small = (FedFairClassifier().fit(t.X, t.y, **t.extra) for t in (table(3000), table(300)))
    again = pickle.loads(pickle.dumps(big))
    np.testing.assert_array_equal(again.predict_proba(T.X), big.predict_proba(T.X))
    assert abs(len(pickle.dumps(big)) - len(pickle.dumps(small))) < 2000


@pytest.mark.slow
def test_a_new_fit_forgets_the_old_one() -> None:
    clf = FedFairClassifier().fit(T.X, T.y, **T.extra)
    assert clf.coef_.shape == (1, len(clf.encoded_names_))
    clf.set_params(method="eo").fit(T.X, T.y, **T.extra)
    assert not hasattr(clf, "coef_")


@pytest.mark.slow
def test_grid_search_over_epsilon_with_plain_fit_parameters() -> None:
    grid = {"epsilon": [0.01, 1.0]}
    search = GridSearchCV(FedFairClassifier(), grid, cv=2)
    search.fit(T.X, T.y, **T.extra)
    assert search.best_params_["epsilon"] in grid["epsilon"]
    assert abs(search.best_estimator_.constraints_["D"].item()) <= search.best_params_["epsilon"]

    def fair(clf: Any, X: Any, y: Any) -> float:
        missed = 1 - clf.predict_proba(X)[:, 1]
        rows = (y == "1") & (X["group"] == "g0"), (y == "1") & (X["group"] == "g1")
        return -float(abs(missed[rows[0]].mean() - missed[rows[1]].mean()))

    search = GridSearchCV(FedFairClassifier(), grid, cv=2, scoring=fair).fit(T.X, T.y, **T.extra)
    assert search.best_params_ == {"epsilon": 0.01}


def test_cross_validation_cuts_groups_and_clients_with_the_rows() -> None:
    result = cross_validate(
        FedFairClassifier(0.02), T.X, T.y, cv=2, params=T.extra, return_estimator=True
    )
    assert result["test_score"].min() > 0.6
    for fold in result["estimator"]:
        assert abs(fold.constraints_["D"].item()) <= 0.02 + 1e-6
        assert len(fold.clients_) == 3


@pytest.mark.slow
def test_pipeline() -> None:
    numbers = T.X[["x0", "x1", "x2", "x3"]]
    pipe = make_pipeline(StandardScaler(), FedFairClassifier())
    pipe.fit(numbers, T.y, fedfairclassifier__sensitive_features=T.group)
    alone = FedFairClassifier().fit(numbers, T.y, sensitive_features=T.group)
    np.testing.assert_allclose(pipe.predict_proba(numbers), alone.predict_proba(numbers), atol=1e-6)


def test_metadata_routing() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        clf = (
            FedFairClassifier(method="eo")
            .set_fit_request(sensitive_features=True, clients=False)
            .set_score_request(sensitive_features=True)
            .set_predict_request(sensitive_features=True)
        )
        pipe = make_pipeline(FunctionTransformer(), clf)
        search = GridSearchCV(pipe, {"fedfairclassifier__epsilon": [0.1]}, cv=2)
        search.fit(T.X, T.y, sensitive_features=T.group)
        assert search.best_score_ > 0.6
        assert pipe.fit(T.X, T.y, sensitive_features=T.group).predict(
            T.X, sensitive_features=T.group
        ).shape == (300,)


def test_fairlearns_metric_frame() -> None:
    clf = FedFairClassifier(0.0).fit(T.X, T.y, **T.extra)
    frame = MetricFrame(
        metrics=accuracy_score,
        y_true=T.y,
        y_pred=clf.predict(T.X),
        sensitive_features=T.group,
    )
    assert list(frame.by_group.index) == ["g0", "g1"]
    assert frame.overall == clf.score(T.X, T.y)


@pytest.mark.parametrize("columns", [list(T.X), ["x0", "x1", "x2", "x3"]])
def test_fairlearns_threshold_optimizer(columns: list[str]) -> None:
    X, y = T.X[columns], (T.y == "1").astype(int)
    clf = FedFairClassifier().fit(X, y, **T.extra)
    post = ThresholdOptimizer(
        estimator=clf,
        constraints="true_positive_rate_parity",
        prefit=True,
        predict_method="predict_proba",
    ).fit(X, y, sensitive_features=T.group)
    chance = post._pmf_predict(X, sensitive_features=T.group)[:, 1]
    rates = [chance[(y == 1) & (T.group == g)].mean() for g in ("g0", "g1")]
    assert rates[0] == pytest.approx(rates[1], abs=0.02)
    labels = post.predict(X, sensitive_features=T.group, random_state=0)
    assert true_positive_rate(y, labels) > 0.3


@pytest.mark.process
def test_importing_the_package_does_not_load_jax() -> None:
    code = "import sys, fairsilo; sys.exit('jax' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'FedFareClassifier'"):
        fairsilo.FedFareClassifier  # type: ignore[attr-defined]  # noqa: B018


def test_the_docstrings_example() -> None:
    assert doctest.testmod(classifier).failed == 0
    assert classifier.FedFairClassifier.__doc__


@pytest.mark.process
@pytest.mark.slow
def test_quickstart() -> None:
    script = Path(__file__).parents[2] / "examples" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, timeout=300
    )
    header, *lines = [line.split() for line in done.stdout.splitlines() if line]
    assert header[0] == "epsilon"
    gaps = [float(line[2]) for line in lines[:3]]
    assert gaps[0] > 0.3
    assert gaps[1] <= 0.1 + 1e-3
    assert gaps[2] <= 0.01 + 1e-3
