"""Methods, notions, models and solvers as objects instead of names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fairsilo import FedFairClassifier
from fairsilo.fairness import Gap, Notion
from fairsilo.fairness.equal_opportunity import EQUAL_OPPORTUNITY
from fairsilo.method.fedfair import fedfair
from fairsilo.method.st import st
from fairsilo.model import Model, logistic_regression
from fairsilo.solver import Newton
from tests.estimator.data import table


def test_objects_of_the_package_are_what_their_names_are() -> None:
    t = table()
    named = FedFairClassifier(method="fedfair", notion="equal-opportunity", model="lr")
    given = FedFairClassifier(
        method=fedfair, notion=EQUAL_OPPORTUNITY, model=logistic_regression, solver=Newton()
    )
    # scikit-learn copies the parameters of a clone, so that the objects are others.
    fitted = [one.fit(t.X, t.y, **t.extra) for one in (named, given, clone(given))]
    for one in fitted[1:]:
        np.testing.assert_array_equal(one.predict_proba(t.X), fitted[0].predict_proba(t.X))


def test_a_solver_with_settings_of_its_own() -> None:
    t = table()
    rough, fine = (
        FedFairClassifier(solver=Newton(tolerance=tolerance)).fit(t.X, t.y, **t.extra)
        for tolerance in (1e-2, 1e-9)
    )
    assert rough.n_iter_ < fine.n_iter_
    assert "tolerance 1e-09" in fine.reason_


def test_a_notion_of_ones_own() -> None:
    """Predictive equality: alike in the class that is not protected."""

    def refused(compared: Any, protected: Any, classes: int) -> tuple[Gap, ...]:
        rest = tuple(c for c in range(classes) if c not in protected)
        return tuple(Gap(a, b, rest) for a, b in compared)

    t = table()
    notion = Notion("predictive-equality-here", "the refused are refused alike", refused)
    clf = FedFairClassifier(0.01, notion=notion).fit(t.X, t.y, **t.extra)
    losses = -np.log(clf.predict_proba(t.X)[np.arange(len(t.y)), (t.y == "1").astype(int)])
    means = [losses[((t.y == "0") & (t.group == g)).to_numpy()].mean() for g in ("g0", "g1")]
    assert abs(means[0] - means[1]) <= 0.01 + 1e-6
    assert clf.constraints_["class"].tolist() == ["0"]


@pytest.mark.slow
def test_a_method_of_ones_own() -> None:
    t = table()
    alone = replace(st, name="alone-here")
    clf = FedFairClassifier(method=alone)
    with pytest.raises(ValueError, match="'alone-here' has a constraint for every client"):
        clf.fit(t.X, t.y, sensitive_features=t.group)
    clf.fit(t.X, t.y, **t.extra)
    same = FedFairClassifier(method="st").fit(t.X, t.y, **t.extra)
    np.testing.assert_array_equal(clf.predict_proba(t.X), same.predict_proba(t.X))
    assert not hasattr(clf, "decision_function")


def test_the_packages_own_names_are_taken() -> None:
    t = table()
    with pytest.raises(ValueError, match="there is a method 'fedfair' already"):
        FedFairClassifier(method=replace(fedfair, rounds=3)).fit(t.X, t.y, **t.extra)


def turned(sign: float) -> Callable[[int, int], Model]:
    """Logistic regression, its scores turned round or not; all functions have one name."""

    def own(features: int, classes: int) -> Model:
        base = logistic_regression(features, classes)
        return replace(base, name="own", apply=lambda params, x: sign * base.apply(params, x))

    return own


def test_two_models_of_one_name_are_not_mixed_up() -> None:
    t = table()
    one = FedFairClassifier(method="fedavg", model=turned(1.0)).fit(t.X, t.y)
    before = one.predict_proba(t.X)
    other = FedFairClassifier(method="fedavg", model=turned(-1.0)).fit(t.X, t.y)
    np.testing.assert_array_equal(one.predict_proba(t.X), before)
    np.testing.assert_allclose(other.predict_proba(t.X), before, atol=1e-6)


def plain(features: int, classes: int) -> Model:
    """A model that a pickle finds again by its place in this file."""
    return replace(logistic_regression(features, classes), name="plain-here")


def test_a_model_of_ones_own_can_be_pickled() -> None:
    t = table()
    clf = FedFairClassifier(model=plain).fit(t.X, t.y, **t.extra)
    back = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(back.predict_proba(t.X), clf.predict_proba(t.X))
    assert not hasattr(clf, "coef_")
