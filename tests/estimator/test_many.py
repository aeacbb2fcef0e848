"""Many groups, limits of single pairs, other notions and targets through the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fairlearn.metrics import demographic_parity_difference, equal_opportunity_difference

from fairsilo import FedFairClassifier
from fairsilo.data.groups import POOLED
from tests.estimator.data import Table, table


def three_groups() -> tuple[Table, np.ndarray]:
    """The table, and groups of which the last is small."""
    made = table(600)
    group = np.random.default_rng(0).choice(["a", "b", "c"], len(made.y), p=[0.5, 0.4, 0.1])
    return made, group


def fit(**parameters: Any) -> FedFairClassifier:
    made, group = three_groups()
    return FedFairClassifier(**parameters).fit(
        made.X, made.y, sensitive_features=group, clients=made.client
    )


@pytest.mark.slow
def test_pairs_have_limits_of_their_own() -> None:
    clf = fit(epsilon={("b", "a"): 0.01, ("a", "c"): 0.2})
    found = clf.constraints_.set_index("pair")
    assert found["epsilon"].to_dict() == {"a - b": 0.01, "a - c": 0.2, "b - c": 0.05}
    assert (found["D"].abs() <= found["epsilon"] + 1e-6).all()
    with pytest.raises(ValueError, match="`epsilon` names 'a:z', which is not compared"):
        fit(epsilon={("a", "z"): 0.1})
    with pytest.raises(TypeError, match="epsilon of 'a' is 'x'"):
        fit(epsilon={"a": "x"})


@pytest.mark.slow
def test_each_group_against_the_rest_and_small_ones_pooled() -> None:
    rest = fit(against="rest", epsilon={"a": 0.01})
    assert rest.constraints_["pair"].tolist() == [f"{g} - the others" for g in "abc"]
    assert rest.constraints_["epsilon"].tolist() == [0.01, 0.05, 0.05]
    pooled = fit(pool=60)
    assert len(pooled.groups_) == 2
    assert pooled.groups_[-1] == POOLED


@pytest.mark.slow
def test_demographic_parity_and_a_target_in_rates() -> None:
    made, group = three_groups()
    two = np.where(group == "c", "b", group)
    given = {"sensitive_features": two, "clients": made.client}
    parity = FedFairClassifier(notion="demographic-parity", target_deo=0.02)
    predicted = parity.fit(made.X, made.y, **given).predict(made.X)
    positive = {"y_true": made.y == parity.classes_[1], "y_pred": predicted == parity.classes_[1]}
    assert demographic_parity_difference(**positive, sensitive_features=two) <= 0.03
    assert parity.constraints_["class"].tolist() == [f"predicted {parity.classes_[1]}"]
    rates = FedFairClassifier(target_deo=0.02).fit(made.X, made.y, **given)
    positive["y_pred"] = rates.predict(made.X) == rates.classes_[1]
    assert equal_opportunity_difference(**positive, sensitive_features=two) <= 0.035
    assert rates.constraints_["epsilon"].tolist() == [0.02]


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"notion": "equality"}, ValueError, "`notion` 'equality' is unknown"),
        ({"against": 3}, TypeError, "against is 3"),
        ({"target_deo": -1.0}, ValueError, "`target_deo` is -1.0"),
        ({"target_deo": 0.1, "method": "fedavg"}, ValueError, "is for `method` fedfair"),
        ({"pool": 2.5}, TypeError, "pool is 2.5"),
        ({"random_state": 2**33}, ValueError, "at most"),
    ],
)
def test_mistakes(parameters: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        fit(**parameters)


def test_the_seed_of_predict_has_an_upper_bound() -> None:
    clf = fit()
    made, _ = three_groups()
    with pytest.raises(ValueError, match="random_state is 4294967296: give a whole number of at"):
        clf.predict(made.X, random_state=2**32)
