"""The other methods behind the same interface."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairsilo import FedFairClassifier
from fairsilo.errors import FairSiloWarning
from tests.estimator.data import table


@pytest.mark.parametrize("method", ["eo", "ceo"])
def test_post_processing_needs_the_group_when_predicting(method: str) -> None:
    t = table()
    clf = FedFairClassifier(method=method, random_state=3)
    clf.fit(t.X, t.y, sensitive_features=t.group)
    for call in (clf.predict, clf.predict_proba):
        with pytest.raises(ValueError, match=r"pass sensitive_features=\.\.\. to predict"):
            call(t.X)
        with pytest.raises(ValueError, match="unknown group 'g9'"):
            call(t.X, sensitive_features=t.group.replace("g0", "g9"))
    s = {"sensitive_features": t.group}
    first = clf.predict(t.X, **s)
    np.testing.assert_array_equal(clf.predict(t.X, **s), first)
    np.testing.assert_array_equal(clf.predict(t.X, random_state=3, **s), first)
    assert clf.score(t.X, t.y, **s) == np.mean(first == t.y)
    assert not hasattr(clf, "decision_function")
    assert not hasattr(clf, "coef_")


def test_equalised_odds_equalises_the_rates_of_the_training_rows() -> None:
    t = table(2000)
    s = {"sensitive_features": t.group}
    clf = FedFairClassifier(method="eo").fit(t.X, t.y, **s)
    chance = clf.predict_proba(t.X, **s)[:, 1]
    for label in clf.classes_:
        rates = [chance[(t.y == label) & (t.group == g)].mean() for g in ("g0", "g1")]
        assert rates[0] == pytest.approx(rates[1], abs=1e-6)
    draws = [clf.predict(t.X, random_state=seed, **s) for seed in range(2)]
    assert (draws[0] != draws[1]).any()
    assert np.mean(draws[0] == "1") == pytest.approx(chance.mean(), abs=0.04)


@pytest.mark.slow
def test_separate_training_votes_and_averages() -> None:
    t = table(600)
    clf = FedFairClassifier(method="st").fit(t.X, t.y, **t.extra)
    members = []
    for name in clf.clients_:
        mine = t.client == name
        alone = FedFairClassifier().fit(t.X[mine], t.y[mine], sensitive_features=t.group[mine])
        members.append(alone)
    votes = np.mean([one.predict(t.X) == "1" for one in members], axis=0)
    # Clients trained separately have their own encoders, which moves rows on the boundary.
    assert np.mean((votes > 0.5) == (clf.predict(t.X) == "1")) > 0.995
    mean = np.mean([one.predict_proba(t.X) for one in members], axis=0)
    np.testing.assert_allclose(clf.predict_proba(t.X), mean, atol=1e-3)
    assert len(clf.constraints_) == 1


def test_agnostic_fair_has_no_limit_on_losses() -> None:
    t = table(200)
    clf = FedFairClassifier(method="af").fit(t.X, t.y, sensitive_features=t.group)
    assert clf.n_iter_ < 600
    assert clf.constraints_["epsilon"].isna().all()
    assert clf.score(t.X, t.y) > 0.6


@pytest.mark.slow
def test_a_network_meets_the_constraint() -> None:
    t = table(300, numbers=2, categories=0)
    clf = FedFairClassifier(0.1, model="mlp", solver="lbfgs", random_state=1)
    with warnings.catch_warnings():
        # A ReLU network may end on a kink, where no solver converges.
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(t.X, t.y, **t.extra)
    assert clf.constraints_["D"].abs().max() <= 0.1 + 1e-3
    assert not hasattr(clf, "coef_")
    other = FedFairClassifier(0.1, model="mlp", solver="lbfgs", random_state=2, max_rounds=1)
    with (
        pytest.warns(FairSiloWarning, match="hardly better than one answer"),
        pytest.warns(ConvergenceWarning, match="raise max_rounds"),
    ):
        other.fit(t.X, t.y, **t.extra)


@pytest.mark.slow
def test_two_groups_only() -> None:
    t = table(groups=3)
    with pytest.raises(ValueError, match="name two with `groups`, or use `method` fedfair"):
        FedFairClassifier(method="eo").fit(t.X, t.y, **t.extra)
    clf = FedFairClassifier(method="eo", groups=["g0", "g2"]).fit(t.X, t.y, **t.extra)
    assert set(clf.predict(t.X, sensitive_features=t.group)) <= {"0", "1"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_local_epochs_and_batches() -> None:
    t = table(120)
    local = FedFairClassifier(method="fedavg", local_epochs=2, batch=16, max_rounds=3)
    plain = FedFairClassifier(method="fedavg", solver="agp", max_rounds=3)
    losses = [one.fit(t.X, t.y, **t.extra).history_["loss"].iloc[-1] for one in (local, plain)]
    assert local.n_iter_ == 3
    # Two epochs of small steps go further than one step over all rows.
    assert losses[0] < losses[1]
    with pytest.raises(TypeError, match=r"batch is 1\.5: give None or a number of rows"):
        local.set_params(batch=1.5).fit(t.X, t.y, **t.extra)
    with pytest.raises(ValueError, match="are for fedfair and fedavg and not for lco"):
        FedFairClassifier(method="lco", local_epochs=2).fit(t.X, t.y, **t.extra)
