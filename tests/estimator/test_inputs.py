"""Mistakes: the exceptions scikit-learn users expect, with the fix in the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from fairsilo import FedFairClassifier
from tests.estimator.data import table

T = table(120)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"epsilon": -0.1}, ValueError, "^`epsilon` is -0.1: give a number of at least 0"),
        ({"epsilon": "small"}, TypeError, "epsilon is 'small': give a number"),
        ({"epsilon": float("nan")}, ValueError, "give a number of at least 0"),
        ({"method": "fedfare"}, ValueError, "^`method` 'fedfare' is unknown: .*perhaps 'fedfair'"),
        ({"method": 3}, TypeError, "method is 3: give a name"),
        ({"model": "tree"}, ValueError, "choose one of lr, mlp"),
        ({"solver": "sgd"}, ValueError, "choose one of newton, lbfgs, agp"),
        ({"estimator": "local"}, ValueError, "choose one of mean, pooled"),
        ({"max_rounds": 0}, ValueError, "^`max_rounds` is 0: give at least 1"),
        ({"max_rounds": 1.5}, TypeError, "give None or a whole number"),
        ({"random_state": -1}, ValueError, "random_state is -1"),
        ({"random_state": "x"}, TypeError, "give None, a whole number"),
        ({"protected_class": "2"}, ValueError, "'2' does not occur in the data: choose from 0, 1"),
        ({"protected_class": []}, ValueError, "give a class, several, or 'all'"),
        (
            {"groups": ["g0", "G1"]},
            ValueError,
            "'G1' does not occur in the data: choose from g0, g1",
        ),
        ({"groups": ["g0"]}, ValueError, "at least two"),
        ({"groups": []}, ValueError, "at least two"),
        ({"groups": "g0"}, TypeError, "give a list"),
        ({"groups": 2}, TypeError, "give a list"),
        ({"groups": ["g0", "g1", None]}, ValueError, "empty value"),
        ({"method": "eo", "protected_class": "all"}, ValueError, "name one, or use method"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        FedFairClassifier(**parameters).fit(T.X, T.y, **T.extra)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"y": T.y[:-1]}, "inconsistent numbers of samples"),
        ({"y": T.y.where(T.y == "1", None)}, "y contains NaN"),
        ({"y": T.y.map(lambda _: "1")}, "only one class, '1': pass rows of at least two"),
        ({"y": np.linspace(0, 1, len(T.y))}, "Unknown label type"),
        ({"y": None}, "requires y"),
        ({"sensitive_features": T.group[:-1]}, "sensitive_features has 119 rows but X has 120"),
        ({"sensitive_features": np.zeros((120, 1, 1))}, "3 dimensions"),
        ({"sensitive_features": T.group.map(lambda _: "g0")}, "only one group to compare, 'g0'"),
        ({"sensitive_features": T.group.where(T.group == "g0")}, "only one group to compare"),
        ({"sensitive_features": np.arange(120) % 40}, "40 different numbers, too many groups"),
        ({"clients": T.client[:-1]}, "clients has 119 rows but X has 120"),
        ({"clients": "silo0"}, "clients must have one dimension"),
        ({"clients": T.client.where(T.client != "silo1")}, "'clients' is empty in 40 rows"),
        ({"X": T.X.assign(x0=np.inf)}, "column 'x0' is infinite"),
        ({"X": T.X.assign(x0=np.nan)}, "column 'x0' is empty in every row"),
        ({"X": T.X.assign(x0=1e200)}, "too large to square; rescale"),
        ({"X": T.X.assign(x0=1j)}, "Complex data not supported"),
        ({"X": T.X[[]]}, "0 feature"),
        ({"X": T.X[["x0", "x0"]]}, "two columns named 'x0'"),
        ({"X": T.X["x0"].to_numpy()}, "Expected 2D array"),
        ({"X": np.full((120, 2), np.inf)}, "infinity"),
        ({"sensitive_features": T.group.where(T.y == "1", "g2")}, "'g2' has no training row of"),
    ],
)
def test_wrong_rows(change: dict[str, Any], text: str) -> None:
    given = {"X": T.X, "y": T.y, **T.extra, **change}
    with pytest.raises(ValueError, match=text):
        FedFairClassifier().fit(**given)


def test_several_values_in_a_cell() -> None:
    with pytest.raises(TypeError, match="column 'x0' of X holds several"):
        FedFairClassifier().fit(T.X.assign(x0=pd.Series([(1, 2)] * 120)), T.y, **T.extra)


@pytest.mark.parametrize("method", ["lco", "st"])
def test_missing_clients(method: str) -> None:
    with pytest.raises(ValueError, match=r"pass clients=\.\.\., one name per row, or use method"):
        FedFairClassifier(method=method).fit(T.X, T.y, sensitive_features=T.group)


@pytest.mark.parametrize("method", ["eo", "ceo", "af"])
def test_missing_groups_where_the_method_compares_them(method: str) -> None:
    with pytest.raises(ValueError, match=r"pass sensitive_features=\.\.\."):
        FedFairClassifier(method=method).fit(T.X, T.y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedfair", "lco", "st"])
def test_missing_groups_train_without_constraint_and_say_so(method: str) -> None:
    with pytest.warns(UserWarning, match="trained without a fairness constraint"):
        clf = FedFairClassifier(method=method).fit(T.X, T.y, clients=T.client)
    assert clf.constraints_.empty
    if method != "st":
        free = FedFairClassifier(method="fedavg").fit(T.X, T.y, clients=T.client)
        np.testing.assert_array_equal(clf.predict_proba(T.X), free.predict_proba(T.X))


def test_a_gap_that_no_row_measures_is_not_a_number() -> None:
    groups = T.group.where(T.y == "1", "g2")
    clf = FedFairClassifier(method="fedavg").fit(T.X, T.y, sensitive_features=groups)
    assert list(clf.constraints_["D"].isna()) == [False, True, True]


@pytest.mark.filterwarnings("ignore:column 'group' says the same as who holds the row")
def test_no_client_has_both_groups() -> None:
    with pytest.raises(ValueError, match="use `estimator` pooled"):
        FedFairClassifier(estimator="mean").fit(
            T.X, T.y, sensitive_features=T.group, clients=T.group
        )


def test_not_converged() -> None:
    with pytest.warns(ConvergenceWarning, match="2 rounds reached.*raise max_rounds"):
        clf = FedFairClassifier(max_rounds=2).fit(T.X, T.y, **T.extra)
    assert (clf.n_iter_, clf.converged_, len(clf.history_)) == (2, False, 2)


def test_not_fitted() -> None:
    for call in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(FedFairClassifier(), call)(T.X)


def test_wrong_rows_when_predicting() -> None:
    clf = FedFairClassifier().fit(T.X, T.y, **T.extra)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(T.X.rename(columns={"x0": "z0"}))
    with pytest.raises(ValueError, match="column 'x0' must hold numbers but has text"):
        clf.predict(T.X.assign(x0="many"))
    with pytest.raises(ValueError, match="sensitive_features has 2 rows but X has 120"):
        clf.predict(T.X, sensitive_features=["g0", "g1"])
    with pytest.warns(UserWarning, match="column 'c0' of X has 120 values that training never saw"):
        clf.predict(T.X.assign(c0="new"))


@pytest.mark.slow
def test_missing_cells_are_filled_and_marked() -> None:
    t = table(200, missing=0.1)
    clf = FedFairClassifier().fit(t.X, t.y, **t.extra)
    assert {"x0 (missing)", "c0=(missing)"} <= set(clf.encoded_names_)
    assert np.isfinite(clf.predict_proba(t.X)).all()


@pytest.mark.slow
def test_arrays_of_objects_lists_and_columns_without_names_are_the_same_rows() -> None:
    X = T.X.drop(columns="group")
    frame = FedFairClassifier().fit(X, T.y, **T.extra)
    expected = frame.predict_proba(X)
    assert list(frame.feature_names_in_) == list(X.columns)
    numbered = X.set_axis(range(X.shape[1]), axis=1)
    for same in (X.to_numpy(object), numbered):
        clf = FedFairClassifier().fit(same, T.y.to_list(), sensitive_features=list(T.group))
        np.testing.assert_allclose(clf.predict_proba(same), expected, atol=1e-6)
        assert not hasattr(clf, "feature_names_in_")
        assert "x4=a" in clf.encoded_names_


def test_the_index_of_a_series_does_not_count() -> None:
    clf = FedFairClassifier().fit(T.X, T.y, **T.extra)
    moved = pd.Series(T.group.to_numpy(), index=T.group.index[::-1], name="group")
    other = FedFairClassifier().fit(T.X, T.y, sensitive_features=moved, clients=T.client)
    np.testing.assert_array_equal(clf.predict_proba(T.X), other.predict_proba(T.X))
