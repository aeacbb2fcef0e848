"""Honest sums are never called a lie, whatever the rows; lies beyond the bounds are."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.engine import silos_of
from fairsilo.fairness import NOTIONS, Dgeo
from fairsilo.fairness.notion import comparisons
from fairsilo.model import MODELS
from fairsilo.partition.federation import Federation
from fairsilo.question import Columns, Counts, Evaluate, Local, Problem, Round
from fairsilo.question.agnostic import POINTS, Attack, Spread
from fairsilo.question.base import Work
from fairsilo.question.plausible import Known
from fairsilo.solver import Agp, Newton

ORDERS = ("lagrangian", "first", "second")
NUMBERS, HOT = 3, 2


def rows(rng: np.random.Generator, classes: int, silos: int = 3) -> Federation:
    """Rows with outliers, a rare group and skewed silos, encoded as the encoder does it."""
    n = int(rng.integers(30, 200))
    x = np.hstack(
        [
            rng.standard_t(1.2, size=(n, NUMBERS)),
            np.eye(HOT)[rng.choice(HOT, size=n, p=(0.95, 0.05))],
        ]
    )
    x[:, :NUMBERS] -= x[:, :NUMBERS].mean(axis=0)
    x[:, :NUMBERS] /= x[:, :NUMBERS].std(axis=0)
    s = (rng.random(n) < 0.15).astype(int)
    client = np.sort(rng.choice(silos, size=n, p=(0.8, 0.15, 0.05)))
    y = rng.integers(classes, size=n)
    # Every cell has a row, so that every constraint is defined.
    y[: 2 * classes], s[: 2 * classes] = np.tile(np.arange(classes), 2), np.repeat([0, 1], classes)
    client[:silos] = np.arange(silos)
    return Federation.of(x, y, s, client, groups=2, classes=classes)


def posed(model: str, classes: int, **kw: Any) -> Problem:
    whole: dict[str, Any] = {
        "constraints": (Dgeo(a=0, b=1, c=1),), "epsilon": 0.02, "estimator": "pooled",
        "solver": Newton(), "rounds": 5, "seed": 0, "measure": "loss",
    }  # fmt: skip
    return Problem(model=MODELS[model](NUMBERS + HOT, classes), **{**whole, **kw})


def answers(problem: Problem, question: Any, table: Federation) -> tuple[list[Floats], Known]:
    parts = [question.answer(problem, silo) for silo in silos_of(table)]
    known = Known(rows=table.rows, encoded=table.rows, silos=len(parts))
    return parts, known


def accept(problem: Problem, question: Any, table: Federation) -> None:
    """The sum and each silo's part of it are plausible."""
    parts, known = answers(problem, question, table)
    assert question.implausible(problem, reduce(add, parts), known) == ""
    for part, own in zip(parts, table.silos(), strict=True):
        one = replace(known, rows=len(table.y[own]), silos=1, alone=True)
        assert question.implausible(problem, part, one) == ""


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", ["pooled", "mean"])
@pytest.mark.parametrize("measure", ["loss", "rate"])
def test_honest_rounds_are_plausible_at_any_point(
    classes: int, estimator: Any, measure: Any
) -> None:
    rng = np.random.default_rng(7)
    problem = posed("lr", classes, estimator=estimator, measure=measure)
    for k in range(16):
        table, scale = rows(rng, classes), (0.0, 0.1, 3.0, 300.0)[k % 4]
        theta = scale * rng.standard_normal(problem.model.size)
        counts = reduce(add, answers(problem, Counts(), table)[0])
        mu = (k % 3) * rng.standard_normal(1)
        accept(problem, Counts(), table)
        for order in ORDERS:
            accept(problem, Round(theta, mu, order, counts), table)
        accept(problem, Evaluate(theta), table)
        if measure == "loss":
            accept(problem, Local(theta, 10.0, 0, counts), table)


@pytest.mark.parametrize("notion", list(NOTIONS))
def test_honest_rounds_of_every_notion_are_plausible(notion: str) -> None:
    rng = np.random.default_rng(3)
    constraints = NOTIONS[notion].constraints(comparisons([0, 1], "pairs"), [1], 2)
    problem = posed("lr", 2, constraints=constraints)
    for _ in range(10):
        table = rows(rng, 2)
        counts = reduce(add, answers(problem, Counts(), table)[0])
        theta = rng.standard_normal(problem.model.size) * rng.choice([0.0, 2.0])
        mu = rng.standard_normal(len(constraints))
        accept(problem, Round(theta, mu, "second", counts), table)
        accept(problem, Evaluate(theta), table)


def test_honest_questions_of_af_are_plausible() -> None:
    rng = np.random.default_rng(1)
    problem = posed("lr", 2)
    for scale in (0.0, 1.0, 30.0):
        table = rows(rng, 2)
        theta = scale * rng.standard_normal(problem.model.size)
        points = rng.standard_normal(POINTS * problem.model.features)
        accept(problem, Spread(), table)
        accept(problem, Attack(theta, points), table)


def lied(vector: Floats, theta: Floats, target: Floats, k: float, constant: bool) -> Floats:
    """Attack 9 of the review: K/2 |theta - theta*|^2 with its gradient and Hessian."""
    size, found = len(theta), vector.copy()
    away = theta - target
    found[0] += k / 2 * (away @ away - (0.0 if constant else target @ target))
    found[2 : 2 + size] += k * away
    upper = np.triu_indices(size)
    found[-len(upper[0]) :] += k * np.eye(size)[upper]
    return found


@pytest.mark.parametrize(
    ("k", "constant", "why"),
    [
        (1.0, True, "not log(classes)"),
        (1000.0, False, "a gradient is larger"),
        (0.4, False, "a Hessian is larger"),
        (0.001, False, ""),
    ],
)
def test_a_quadratic_that_draws_to_a_point_is_noticed_unless_it_is_weak(
    k: float, constant: bool, why: str
) -> None:
    rng = np.random.default_rng(5)
    table, problem = rows(rng, 2), posed("lr", 2)
    counts = reduce(add, answers(problem, Counts(), table)[0])
    theta, target = np.zeros(problem.model.size), np.full(problem.model.size, 0.5)
    question = Round(theta, np.zeros(1), "second", counts)
    parts, known = answers(problem, question, table)
    total = lied(reduce(add, parts), theta, target, k, constant)
    found = question.implausible(problem, total, known)
    assert found == "" if not why else why in found


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (0, -1.0, "negative"),
        (1, 9e9, "larger than the losses allow"),
        (2, 9.0, "a gradient is larger"),
        (0, 9e3, "no convex function"),
        (8, 50.0, "a gradient of a gap"),
        (-1, -1.0, "positive semidefinite"),
        (-1, 9.0, "a Hessian is larger"),
    ],
)
def test_every_bound_of_a_round_bites(place: int, value: float, why: str) -> None:
    rng = np.random.default_rng(6)
    table, problem = rows(rng, 2), posed("lr", 2)
    counts = reduce(add, answers(problem, Counts(), table)[0])
    question = Round(np.full(6, 0.1), np.zeros(1), "second", counts)
    parts, known = answers(problem, question, table)
    total: Floats = reduce(add, parts)
    assert question.implausible(problem, total, known) == ""
    if why == "positive semidefinite":
        value = -0.2
    total[place] = value
    assert why in question.implausible(problem, total, known)


def test_honest_local_epochs_are_plausible_where_the_loss_is_large() -> None:
    """What they send in the place of a gradient is none of a convex function."""
    rng = np.random.default_rng(9)
    problem = posed("lr", 2, constraints=(), work=Work(epochs=2), solver=Agp())
    table = rows(rng, 2)
    counts = reduce(add, answers(problem, Counts(), table)[0])
    question = Round(np.array([-6.0, 0, 0, 0, 0, 0]), np.zeros(0), "lagrangian", counts)
    assert reduce(add, answers(problem, question, table)[0])[0] > 2 * np.log(2)
    accept(problem, question, table)
    parts, known = answers(problem, question, table)
    assert "negative" in question.implausible(problem, -reduce(add, parts), known)


@pytest.mark.parametrize("work", [Work(3), Work(1, 1), Work(2, 7), Work(2, 500)])
def test_local_epochs_lead_as_far_as_rows_allow_and_no_further(work: Work) -> None:
    rng = np.random.default_rng(11)
    claimed = NOTIONS["demographic-parity"].constraints(comparisons([0, 1], "pairs"), [1], 2)
    for constraints in ((Dgeo(a=0, b=1, c=1),), claimed):
        problem = posed("lr", 2, constraints=constraints, work=work, solver=Agp())
        for k in range(6):
            table = rows(rng, 2)
            counts = reduce(add, answers(problem, Counts(), table)[0])
            theta = (0.0, 0.1, 30.0)[k % 3] * rng.standard_normal(problem.model.size)
            mu = (k % 2) * rng.standard_normal(len(constraints))
            question = Round(theta, mu, "lagrangian", counts, turn=k)
            accept(problem, question, table)
        parts, known = answers(problem, question, table)
        total: Floats = reduce(add, parts)
        total[-1] = 1e5
        assert "further than any rows" in question.implausible(problem, total, known)


def test_a_hessian_is_bounded_where_a_row_of_a_gap_may_weigh_anything() -> None:
    rng = np.random.default_rng(10)
    table, problem = rows(rng, 2), posed("lr", 2, estimator="mean", weighted=True)
    counts = reduce(add, answers(problem, Counts(), table)[0])
    question = Round(np.zeros(6), np.zeros(1), "second", counts)
    parts, known = answers(problem, question, table)
    total: Floats = reduce(add, parts)
    assert question.implausible(problem, total, known) == ""
    total[-1] = 1e6
    assert "a Hessian is larger" in question.implausible(problem, total, known)


def test_sums_of_small_weights_are_held_to_their_own_size() -> None:
    problem = posed("lr", 2, weighted=True)
    counts = np.array([1.0, 0.2, 0.3, 0.1, 0.4, 1.0])
    assert Counts().implausible(problem, counts) == ""
    assert "negative" in Counts().implausible(problem, np.array([1.0, -0.3, 0.3, 0.1, 0.4, 1.0]))
    assert Columns().implausible(problem, np.array([1.0, 1.0, 0.5, 0.5]), Known(rows=1.0)) == ""
    more, other = np.array([1.0, 1.3, 0.5, 0.5]), np.array([1.3, 1.0, 0.5, 0.5])
    assert "more values than rows" in Columns().implausible(problem, more)
    assert "before there were 1" in Columns().implausible(problem, other, Known(rows=1.0))


def test_counts_and_tallies_agree_with_each_other() -> None:
    rng = np.random.default_rng(8)
    table, problem = rows(rng, 2), posed("lr", 2)
    parts, known = answers(problem, Counts(), table)
    counts: Floats = reduce(add, parts)
    other = replace(known, rows=table.rows + 1)
    assert "before there were" in Counts().implausible(problem, counts, other)
    assert "no whole number" in Counts().implausible(
        problem, counts + 0.3 * (counts == counts[1]), known
    )
    assert "more silos" in Counts().implausible(problem, counts, replace(known, silos=1))
    evaluate = Evaluate(np.full(6, 0.1))
    total: Floats = reduce(add, answers(problem, evaluate, table)[0])
    cells = Counts().read(problem, counts).cells
    known = replace(known, cells=cells)
    assert evaluate.implausible(problem, total, known) == ""
    assert "fewer training rows" in evaluate.implausible(
        problem, total, replace(known, cells=cells + 1)
    )
    assert "before there were" in evaluate.implausible(problem, total, other)
    for place, change, why in (
        (8, -0.5, "predicted wrongly allow"),
        (12, -0.9, "squares is less"),
    ):
        lie = total.copy()
        lie[place : place + 4] *= 1 + change
        assert why in evaluate.implausible(problem, lie, known)
