"""Trained models against the command line, scikit-learn, and the constraint's definition."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairsilo import FedFairClassifier
from fairsilo.data import make_table
from fairsilo.run import Options, execute
from tests.estimator.data import Table, split, table


def gap(clf: FedFairClassifier, t: Table, a: str, b: str, label: str) -> float:
    """D by its definition, from predicted probabilities."""
    column = list(clf.classes_).index(label)
    loss = -np.log(clf.predict_proba(t.X)[:, column])
    mine = (t.y == label).to_numpy()
    means = [loss[mine & (t.group == g).to_numpy()].mean() for g in (a, b)]
    return float(means[0] - means[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "estimator"),
    [("fedfair", "pooled"), ("fedfair", "mean"), ("lco", "pooled"), ("fedavg", "pooled")],
)
def test_same_model_as_the_command_line(tmp_path: Path, method: str, estimator: str) -> None:
    frame = make_table(400, silos=4, seed=1, bias=1.0, missing=0.05)
    path = tmp_path / "loans.csv"
    part = ["test" if i % 5 == 0 else "train" for i in range(len(frame))]
    frame.assign(part=part).to_csv(path, index=False)
    options = Options(
        data=str(path), label="label", protected_class="1", group="group", client="client",
        split="part", method=method, estimator=estimator, epsilon=0.02,
    )  # fmt: skip
    run = execute(options, baseline=False)

    rows = frame[np.array(part) == "train"]
    t = split(rows)
    clf = FedFairClassifier(0.02, method=method, estimator=estimator).fit(t.X, t.y, **t.extra)
    assert clf.history_["loss"].iloc[-1] == pytest.approx(run.metrics["train"]["loss"], abs=1e-9)
    assert (clf.n_iter_, clf.converged_) == (run.metrics["rounds"], True)
    assert clf.reason_ == run.metrics["reason"]
    x = run.prepared.encoder.transform(rows)
    theirs = run.trained.predictors[0].probabilities(x, np.zeros(len(x), np.int64))
    np.testing.assert_allclose(clf.predict_proba(t.X), theirs, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_without_constraint_it_is_scikit_learns_logistic_regression(classes: int) -> None:
    t = table(classes=classes, categories=0)
    x = t.X.drop(columns="group").to_numpy()
    ours = FedFairClassifier(method="fedavg").fit(x, t.y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(x, t.y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-5)
    scores = ours.decision_function(x) - (0 if classes == 2 else ours.decision_function(x)[:, :1])
    other = theirs.decision_function(x)
    np.testing.assert_allclose(scores, other - (0 if classes == 2 else other[:, :1]), atol=1e-3)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    by_hand = z @ ours.coef_.T + ours.intercept_
    np.testing.assert_allclose(by_hand.squeeze(), ours.decision_function(x), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_the_constraint_is_met_and_active(epsilon: float) -> None:
    t = table()
    free = FedFairClassifier(method="fedavg").fit(t.X, t.y, **t.extra)
    assert abs(gap(free, t, "g0", "g1", "1")) > 0.2
    assert free.constraints_["D"].item() == pytest.approx(gap(free, t, "g0", "g1", "1"), abs=1e-9)
    assert free.constraints_["epsilon"].isna().all()

    fair = FedFairClassifier(epsilon).fit(t.X, t.y, **t.extra)
    assert abs(gap(fair, t, "g0", "g1", "1")) == pytest.approx(epsilon, abs=2e-6)
    row = fair.constraints_.iloc[0]
    assert (row["pair"], row["class"], row["epsilon"]) == ("g0 - g1", "1", epsilon)
    assert row["D"] == pytest.approx(gap(fair, t, "g0", "g1", "1"), abs=1e-9)
    assert abs(row["multiplier"]) > 0.01
    assert fair.score(t.X, t.y) > 0.6


@pytest.mark.slow
def test_three_groups_and_all_classes_every_pair_within_epsilon() -> None:
    t = table(600, groups=3, classes=3, bias=1.0)
    free = FedFairClassifier(method="fedavg", protected_class="all").fit(t.X, t.y, **t.extra)
    assert free.constraints_["D"].abs().max() > 0.3
    clf = FedFairClassifier(0.03, protected_class="all").fit(t.X, t.y, **t.extra)
    assert len(clf.constraints_) == 9
    for a, b in itertools.combinations(clf.groups_, 2):
        for label in clf.classes_:
            assert abs(gap(clf, t, a, b, label)) <= 0.03 + 2e-6


@pytest.mark.slow
def test_protected_class_and_groups_choose_the_constraints() -> None:
    t = table(600, groups=3, classes=3)
    default = FedFairClassifier().fit(t.X, t.y, **t.extra)
    assert set(default.constraints_["class"]) == {default.classes_[1]}
    assert list(default.constraints_["pair"]) == ["g0 - g1", "g0 - g2", "g1 - g2"]
    some = FedFairClassifier(protected_class=["2", "0"], groups=["g2", "g0"])
    some.fit(t.X, t.y, **t.extra)
    assert list(some.constraints_["class"]) == ["2", "0"]
    assert set(some.constraints_["pair"]) == {"g2 - g0"}


@pytest.mark.slow
def test_several_sensitive_columns_make_intersections() -> None:
    t = table()
    both = pd.DataFrame({"sex": t.group, "level": t.X["c0"].replace("c", "b")})
    clf = FedFairClassifier().fit(t.X, t.y, sensitive_features=both)
    assert list(clf.groups_) == ["g0 & a", "g0 & b", "g1 & a", "g1 & b"]
    assert len(clf.constraints_) == 6
    assert clf.constraints_["D"].abs().max() <= 0.05 + 1e-6


def test_numeric_groups_and_classes_are_named_as_the_user_does() -> None:
    t = table()
    s = t.group.map({"g0": 10, "g1": 9}).to_numpy()
    clf = FedFairClassifier(protected_class=True, groups=[10, 9])
    t.X.pop("group")
    clf.fit(t.X, (t.y == "1").to_numpy(), sensitive_features=s)
    assert list(clf.groups_) == ["9", "10"]
    assert list(clf.constraints_["pair"]) == ["10 - 9"]
    assert set(clf.predict(t.X)) == {True, False}
    clf.fit(t.X, (t.y == "1").to_numpy(), sensitive_features=pd.Series(s, name="female"))
    assert list(clf.constraints_["pair"]) == ["female=10 - female=9"]
    assert clf._described["schema"]["group"] == "female"


@pytest.mark.slow
def test_clients_change_the_mean_and_not_the_pooled_estimate() -> None:
    t = table(300, missing=0.05)
    one = FedFairClassifier().fit(t.X, t.y, sensitive_features=t.group)
    many = FedFairClassifier().fit(t.X, t.y, **t.extra)
    np.testing.assert_allclose(many.predict_proba(t.X), one.predict_proba(t.X), atol=1e-6)
    assert (len(one.clients_), list(many.clients_)) == (1, ["silo0", "silo1", "silo2"])
    mean = FedFairClassifier(estimator="mean").fit(t.X, t.y, **t.extra)
    assert np.abs(mean.predict_proba(t.X) - one.predict_proba(t.X)).max() > 1e-3


@pytest.mark.slow
def test_lco_has_a_constraint_per_client() -> None:
    t = table()
    clf = FedFairClassifier(method="lco").fit(t.X, t.y, **t.extra)
    assert list(clf.constraints_["client"]) == ["silo0", "silo1", "silo2"]
    for row in clf.constraints_.to_dict("records"):
        mine = (t.client == row["client"]).to_numpy()
        own = Table(t.X[mine], t.y[mine], t.group[mine], t.client[mine])
        assert row["D"] == pytest.approx(gap(clf, own, "g0", "g1", "1"), abs=1e-9)
        assert abs(row["D"]) <= 0.05 + 1e-6


@pytest.mark.slow
def test_the_sensitive_feature_is_a_feature_only_as_a_column_of_x() -> None:
    t = table()
    clf = FedFairClassifier().fit(t.X.drop(columns="group"), t.y, **t.extra)
    assert not any("group" in name for name in clf.encoded_names_)
    assert "group" not in clf.feature_names_in_
    assert "group=g1" in FedFairClassifier().fit(t.X, t.y, **t.extra).encoded_names_
