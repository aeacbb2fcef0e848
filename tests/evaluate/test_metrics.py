"""Metrics against fairlearn and scikit-learn where they have the same, by hand elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, true_positive_rate
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from fairsilo.evaluate import Tally, average, summary
from fairsilo.evaluate.metrics import dgeo_mean, loss_gap, rate_gap
from fairsilo.fairness import Dgeo

PAIR = Dgeo(0, 1, 1)


def draw(seed: int, n: int = 60) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    y, s, predicted = (rng.integers(0, 2, n) for _ in range(3))
    y[:4], s[:4] = [0, 0, 1, 1], [0, 1, 0, 1]
    return y, s, predicted, rng.exponential(size=n)


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_same_as_fairlearn_and_scikit_learn(seed: int) -> None:
    y, s, predicted, loss = draw(seed)
    got = summary(Tally.of(y, s, predicted, loss, groups=2, classes=2), [PAIR])
    frame = MetricFrame(
        metrics=true_positive_rate, y_true=y, y_pred=predicted, sensitive_features=s
    )
    deo = frame.difference()
    assert got["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert got["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert got["deo"] == pytest.approx(deo)
    assert got["fairness"] == pytest.approx(1 - deo)
    by_hand = loss[(y == 1) & (s == 0)].mean() - loss[(y == 1) & (s == 1)].mean()
    assert got["dgeo_pooled"] == pytest.approx(abs(by_hand))


def test_protected_class_zero_counts_predictions_of_class_zero() -> None:
    y, s = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 0])
    tally = Tally.of(y, s, np.array([0, 1, 0, 0, 1]), np.ones(5), groups=2, classes=2)
    assert rate_gap(tally, Dgeo(0, 1, 0)) == pytest.approx(0.5 - 1.0)


@given(st.integers(0, 10_000), st.integers(1, 59))
def test_tallies_add_up(seed: int, cut: int) -> None:
    y, s, predicted, loss = draw(seed)
    whole = Tally.of(y, s, predicted, loss, groups=2, classes=2)
    parts = [
        Tally.of(y[p], s[p], predicted[p], loss[p], groups=2, classes=2)
        for p in (slice(None, cut), slice(cut, None))
    ]
    at_once = Tally.of_clients(
        y, s, predicted, loss, offsets=np.array([0, cut, len(y)]), groups=2, classes=2
    )
    for one, same in zip(parts, at_once, strict=True):
        np.testing.assert_array_equal(one.counts, same.counts)
        np.testing.assert_allclose(one.losses, same.losses)
        np.testing.assert_allclose(one.squares, same.squares)
    joined = parts[0] + parts[1]
    np.testing.assert_array_equal(joined.counts, whole.counts)
    np.testing.assert_allclose(joined.losses, whole.losses)
    np.testing.assert_allclose(joined.squares, whole.squares)


def test_undefined_is_none_and_never_fair() -> None:
    y, s = np.array([0, 1, 0]), np.array([0, 0, 1])  # group 1 has no row of class 1
    tally = Tally.of(y, s, y, np.ones(3), groups=2, classes=2)
    got = summary(tally, [PAIR])
    assert got["accuracy"] == 1.0
    assert got["deo"] is None
    assert got["fairness"] is None
    assert got["harmonic_mean"] is None
    assert got["dgeo_pooled"] is None
    assert loss_gap(tally, PAIR) is None


def test_mean_leaves_out_clients_without_both_cells() -> None:
    both = Tally.of(
        np.array([1, 1]), np.array([0, 1]), np.array([1, 1]), np.array([3.0, 1.0]),
        groups=2, classes=2,
    )  # fmt: skip
    one = Tally.of(
        np.array([1]), np.array([0]), np.array([1]), np.array([9.0]), groups=2, classes=2
    )
    assert dgeo_mean([both, one, both], [PAIR]) == pytest.approx(2.0)
    assert dgeo_mean([one], [PAIR]) is None


def test_average_over_models_is_undefined_where_one_is() -> None:
    got = average([{"a": 1.0, "b": None}, {"a": 0.5, "b": 1.0}])
    assert got == {"a": 0.75, "b": None}
