"""Integer weights equal repeated rows, in every number that a solver or a report is made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.data.weights import declared_weights
from fairsilo.dp import Clip, Plan
from fairsilo.engine import Clientwise, Pooled, silos_of
from fairsilo.fairness import Constraint, Dgeo, Estimator
from fairsilo.fairness.constraint import ClassWeight, Gap, Measure
from fairsilo.fairness.weigh import weighted
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.predictor import Plain
from fairsilo.question import Cells, Evaluate, NoisyCounts, Outcomes, Problem, Round
from fairsilo.question.base import Promise
from fairsilo.question.model_sums import sums_of
from fairsilo.solver import Newton

ROWS = 90
PAIR, PARITY = Dgeo(0, 1, 1), Gap((0,), (1,), (0, 1), claim=1)


def federations(seed: int = 0) -> tuple[Federation, Federation]:
    """Rows with weights 1 to 4, and the same rows repeated so often, at three silos."""
    rng = np.random.default_rng(seed)
    x, y, s = rng.normal(size=(ROWS, 3)), rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS)
    client, times = np.sort(rng.integers(0, 3, ROWS)), rng.integers(1, 5, ROWS)
    shape: dict[str, Any] = {"groups": 2, "classes": 2}
    again = np.repeat(np.arange(ROWS), times)
    one = Federation.of(x, y, s, client, **shape, weight=times.astype(float))
    return one, Federation.of(x[again], y[again], s[again], client[again], **shape)


def problem(
    constraint: Constraint,
    estimator: Estimator = "pooled",
    measure: Measure = "loss",
    costs: ClassWeight | None = None,
) -> Problem:
    return Problem(
        logistic_regression(3), (constraint,), 0.05, estimator, Newton(), 20, 0,
        measure=measure, class_weight=costs,
    )  # fmt: skip


@pytest.mark.parametrize("costs", [None, "balanced", (2.0, 3.0)])
@pytest.mark.parametrize("measure", ["loss", "rate"])
@pytest.mark.parametrize("estimator", ["pooled", "mean", "local"])
@pytest.mark.parametrize("constraint", [PAIR, PARITY])
def test_sums_of_a_round(
    constraint: Constraint, estimator: Estimator, measure: Measure, costs: ClassWeight | None
) -> None:
    """L, D, their gradients and the Hessian, in the pooled engine and silo by silo."""
    one, repeated = federations()
    theta, mu = np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.7])
    asked = problem(constraint, estimator, measure, costs)
    found = []
    for rows, weights in ((one, True), (repeated, False)):
        whole, w, v = weighted(rows, (constraint,), estimator, class_weight=costs)
        at = ("second", whole.x, whole.y, w, v, theta, mu)
        found.append(sums_of(asked.model, *at, measure))
        engine, own = Clientwise(silos_of(rows)), replace(asked, weighted=weights)
        question = Round(theta, mu, "second", engine.count(own).to_vector())
        question.check(own)
        each = [question.answer(own, silo) for silo in engine.silos]
        assert all(len(part) == question.length(own) for part in each)
        found.append(np.sum(each, axis=0))
        assert not question.implausible(own, found[-1])
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, atol=1e-12)


def test_class_weights_equal_repeated_classes() -> None:
    """In the objective: a class of weight three is every row of it three times."""
    _, rows = federations()
    again = np.repeat(np.arange(rows.rows), np.where(rows.y == 1, 3, 1))
    theta, none = np.array([0.3, -0.2, 0.5, 0.1]), np.zeros(0)
    losses: list[Any] = []
    for chosen, costs in ((np.arange(rows.rows), (1.0, 3.0)), (again, None)):
        parts = (rows.x[chosen], rows.y[chosen], rows.s[chosen], np.zeros(len(chosen), int))
        one = Federation.of(*parts, groups=2, classes=2)
        _, w, v = weighted(one, (), "pooled", class_weight=costs)
        losses.append(sums_of(logistic_regression(3), "second", one.x, one.y, w, v, theta, none))
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-12)


@pytest.mark.parametrize("engine", [Pooled, lambda rows: Clientwise(silos_of(rows))])
def test_evidence_and_trained_models(engine: type[Pooled]) -> None:
    one, repeated = federations()
    theta = np.array([0.3, -0.2, 0.5, 0.1])
    seen: list[Any] = []
    for rows, weights in ((one, True), (repeated, False)):
        asked = replace(problem(PARITY), weighted=weights)
        evidence, _ = engine(rows).ask(asked, Evaluate(theta, scores="both"))
        tally = evidence.tally
        gaps = (evidence.losses.total, evidence.rates.total)
        found = (tally.counts, tally.losses, tally.squares, tally.claimed, tally.scores, *gaps)
        seen.append((*found, engine(rows).solve(asked).theta))
    for ours, theirs in zip(*seen, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_kish_says_how_many_rows_weights_are_worth() -> None:
    one, repeated = federations()
    for rows, weights in ((one, True), (repeated, False)):
        asked = replace(problem(PAIR), weighted=weights)
        evidence, _ = Pooled(rows).ask(asked, Evaluate(np.zeros(4)))
        worth = evidence.tally.effective.counts.sum()
        u = np.ones(rows.rows) if rows.weight is None else rows.weight
        assert worth == pytest.approx(u.sum() ** 2 / np.square(u).sum())


def test_under_differential_privacy_weights_are_shares_of_the_largest() -> None:
    """So no row counts for more than one, and noise hides it as before."""
    one, repeated = federations()
    table = pd.DataFrame({"u": [0.5, 4.0, 9.0, -1.0, np.nan]})
    assert declared_weights(table, "u", 4.0).tolist() == [0.125, 1.0, 1.0, 0.0, 0.0]
    assert one.weight is not None
    shares = replace(one, weight=one.weight / 4)
    asked = replace(problem(PAIR), promise=Promise(Plan(*[1.0] * 6), Clip(0.5, 2.0)))
    theta = np.array([0.3, -0.2, 0.5, 0.1])
    for question in (NoisyCounts(), Cells(theta, True), Outcomes(theta, 0.4)):
        ours, theirs = (
            question.messages(replace(asked, weighted=weights), silos_of(rows)[0])
            for rows, weights in ((shares, True), (repeated, False))
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(4 * a.values, b.values, atol=1e-9)


def test_released_outcomes_decide_where_the_model_does() -> None:
    _, rows = federations()
    asked = replace(problem(PAIR), promise=Promise(Plan(*[1.0] * 6), Clip(0.5, 2.0)))
    theta, silo = np.array([0.3, -0.2, 0.5, 0.1]), silos_of(rows)[0]
    for cut in (0.3, 0.5, 0.7):
        said = Plain(asked.model, theta, cut).labels(silo.train.x, silo.train.s)
        (message,) = Outcomes(theta, cut).messages(asked, silo)
        right = Outcomes(theta, cut).read(asked, message.values)[1]
        assert right.sum() == pytest.approx((said == silo.train.y).sum())


def test_a_small_cell_is_one_of_few_rows_whatever_they_weigh() -> None:
    one, _ = federations()
    heavy = replace(one, weight=np.full(one.rows, 1000.0))
    for rows in (one, heavy):
        engine = Clientwise(silos_of(rows, min_cell=ROWS))
        assert not engine.count(replace(problem(PAIR), weighted=True)).cells.any()
