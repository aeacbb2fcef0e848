"""Every notion of fairness against its definition, row by row, and against fairlearn's metric.

fairlearn measures rates, but we train on losses; so its metrics are compared with `rate_gap`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from sklearn.metrics import accuracy_score

from fairsilo.compute import jnp
from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import deo, loss_gap, rate_gap
from fairsilo.fairness import NOTIONS, Constraint, Estimator, Gap, comparisons
from fairsilo.fairness.weigh import weighted
from fairsilo.fairness.words import describe
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.solver import Order, Query
from fairsilo.sums import Rows
from tests.engine.sums import compiled_sums

GROUPS, CLASSES = ("a", "b", "c"), ("no", "yes", "maybe")


def federation(classes: int = 2, groups: int = 3, seed: int = 0) -> Federation:
    rng = np.random.default_rng(seed)
    n = 120
    return Federation.of(
        rng.normal(size=(n, 2)), rng.integers(0, classes, n), rng.integers(0, groups, n),
        rng.integers(0, 4, n), groups=groups, classes=classes,
    )  # fmt: skip


def theta_of(classes: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=logistic_regression(2, classes).size)


def log_probabilities(rows: Federation) -> np.ndarray:
    """-log p(c | x) of every row and class, in NumPy; theta is bias first."""
    outputs = 1 if rows.classes == 2 else rows.classes
    theta = theta_of(rows.classes)
    scores = rows.x @ theta[outputs:].reshape(2, outputs) + theta[:outputs]
    if outputs == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return np.asarray(np.log(np.exp(scores).sum(axis=1, keepdims=True)) - scores)


def slow(notion: str, rows: Federation, a: list[int], b: list[int], c: int) -> float:
    """D over the union of rows by its definition, one row at a time."""
    table = log_probabilities(rows)

    def mean(groups: list[int]) -> float:
        values = []
        for j in range(rows.rows):
            if rows.s[j] not in groups:
                continue
            if notion in ("equal-opportunity", "equalized-odds") and rows.y[j] != c:
                continue
            values.append(table[j, c if notion == "demographic-parity" else rows.y[j]])
        return float(np.mean(values))

    return mean(a) - (mean(b) if b else 0.0)


def measured(rows: Federation, constraints: tuple[Constraint, ...], how: Estimator) -> np.ndarray:
    """D as the engine sums it."""
    asked, w, v = weighted(rows, constraints, how)
    model = logistic_regression(2, rows.classes)
    query = Query(jnp.asarray(theta_of(rows.classes)), jnp.zeros(len(constraints)))
    sums = compiled_sums(model, Order.FIRST, Rows(asked.x, asked.y, w, v), query)  # type: ignore[arg-type]
    own = log_probabilities(rows)[np.arange(rows.rows), rows.y]
    assert float(sums.loss) == pytest.approx(own.mean()), "asking twice must not change L"
    return np.asarray(sums.d)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("against", ["pairs", "rest"])
@pytest.mark.parametrize("notion", NOTIONS)
def test_d_is_what_the_definition_says(notion: str, against: str, classes: int) -> None:
    rows = federation(classes)
    sides = comparisons([0, 1, 2], against)  # type: ignore[arg-type]
    constraints = NOTIONS[notion].constraints(sides, [1], classes)
    got = iter(measured(rows, constraints, "pooled"))
    over = range(classes) if notion == "equalized-odds" else [1]
    if notion == "bounded-loss":
        want = [slow(notion, rows, [g], [], 1) for g in range(3)]
    elif notion == "accuracy-parity":
        want = [slow(notion, rows, list(a), list(b), 1) for a, b in sides]
    else:
        want = [slow(notion, rows, list(a), list(b), c) for c in over for a, b in sides]
    np.testing.assert_allclose(list(got), want, atol=1e-12)


def test_the_mean_over_clients_is_the_average_of_their_own() -> None:
    rows = federation(2, groups=2)
    (constraint,) = NOTIONS["demographic-parity"].constraints(comparisons([0, 1], "pairs"), [1], 2)
    each = [slow("demographic-parity", part, [0], [1], 1) for part in rows.parts()]

    # All clients have the same theta, so a client's D is the definition on its rows.
    assert measured(rows, (constraint,), "mean")[0] == pytest.approx(np.mean(each))


def test_of_two_groups_the_rest_is_the_other() -> None:
    assert comparisons([3, 1], "rest") == comparisons([3, 1], "pairs") == (((3,), (1,)),)
    assert comparisons([0, 1, 2], "rest")[1] == ((1,), (0, 2))


def test_constraints_in_words() -> None:
    words = {
        name: [
            describe(k, GROUPS, CLASSES[:2])
            for k in notion.constraints(comparisons([0, 1], "pairs"), [1], 2)
        ]
        for name, notion in NOTIONS.items()
    }
    assert words == {
        "equal-opportunity": ["a - b in yes"],
        "equalized-odds": ["a - b in no", "a - b in yes"],
        "demographic-parity": ["a - b predicted yes"],
        "accuracy-parity": ["a - b"],
        "bounded-loss": ["a", "b"],
    }
    rest = NOTIONS["equal-opportunity"].constraints(comparisons([0, 1, 2], "rest"), [1], 2)
    assert describe(rest[0], GROUPS, CLASSES) == "a - the others in yes"


def accuracy_difference(y: np.ndarray, p: np.ndarray, *, sensitive_features: np.ndarray) -> float:
    groups = sensitive_features
    frame = MetricFrame(metrics=accuracy_score, y_true=y, y_pred=p, sensitive_features=groups)
    return float(frame.difference())


@pytest.mark.parametrize(
    ("notion", "metric"),
    [
        ("equal-opportunity", equal_opportunity_difference),
        ("equalized-odds", equalized_odds_difference),
        ("demographic-parity", demographic_parity_difference),
        ("accuracy-parity", accuracy_difference),
    ],
)
def test_rates_are_those_of_fairlearn(notion: str, metric: Callable[..., float]) -> None:
    rows = federation(seed=3)
    predicted = np.random.default_rng(4).integers(0, 2, rows.rows)
    tally = Tally.of(rows.y, rows.s, predicted, np.zeros(rows.rows), groups=3, classes=2)
    constraints = NOTIONS[notion].constraints(comparisons([0, 1, 2], "pairs"), [1], 2)
    assert deo(tally, constraints) == pytest.approx(
        metric(rows.y, predicted, sensitive_features=rows.s)
    )


def test_gaps_that_a_tally_cannot_say_are_undefined() -> None:
    rows = federation()
    tally = Tally.of(rows.y, rows.s, rows.y, np.ones(rows.rows), groups=3, classes=2)
    alone = Gap((0,), (), (0, 1))
    assert rate_gap(tally, alone) is None
    assert loss_gap(tally, alone) == 1.0
    assert loss_gap(tally, Gap((0,), (1,), (0, 1), claim=1)) is None
