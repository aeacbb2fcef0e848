"""Every question: its answers add up, have the length they should, and can be read back; one that
does not fit the problem is refused.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.compute import jnp
from fairsilo.data.bounded import bounded_sums
from fairsilo.engine import Pooled
from fairsilo.fairness import NOTIONS, comparisons
from fairsilo.fairness.constraint import Measure, count_cells
from fairsilo.method.repair import Repair
from fairsilo.model import logistic_regression, mlp
from fairsilo.predictor import Plain
from fairsilo.question import (
    QUESTIONS,
    Cells,
    Columns,
    Counts,
    Evaluate,
    Local,
    NoisyColumns,
    NoisyCounts,
    Outcomes,
    Problem,
    Unfit,
)
from fairsilo.question.lr_sums import linear_sums
from fairsilo.question.model_sums import flatten
from fairsilo.solver import Agp, Order, Query
from fairsilo.sums import Rows
from tests.engine.asked import (
    CASES,
    CLAIMED,
    FEATURES,
    FEDERATION,
    FRAME,
    PROBLEM,
    SCHEMA,
    SIZES,
    THETA,
    asked_round,
    local,
    no_pack,
    part,
    silos,
    totals,
    whole,
)
from tests.engine.sums import compiled_sums

EACH = pytest.mark.parametrize("name", CASES)


def test_no_question_is_forgotten() -> None:
    own = ("fairsilo.question", "fairsilo.method")
    known = {kind for kind, one in QUESTIONS.items() if one.__module__.startswith(own)}
    # Of rows in steps: tests/run/test_additive.py, test_private_additive.py.
    stepped = {"histogram", "noisy-histogram", "crossings"}
    assert known == {case.question().kind for case in CASES.values()} | stepped


@pytest.mark.slow
@EACH
def test_an_answer_has_its_length_and_can_be_read_back(name: str) -> None:
    case = CASES[name]
    question, problem = case.question(), case.problem
    question.check(problem)
    vectors = [question.answer(problem, silo) for silo in silos()]
    for vector in vectors:
        assert vector.dtype == np.float64
        assert vector.shape == (question.length(problem),)
        assert np.isfinite(vector).all()
    total = reduce(add, vectors)
    read = question.read(problem, total)
    assert not question.implausible(problem, total)
    if case.pack is not no_pack:
        np.testing.assert_allclose(case.pack(read), total, rtol=1e-12)


@EACH
def test_answers_add_up_where_a_question_says_so(name: str) -> None:
    case = CASES[name]
    question, problem = case.question(), case.problem
    together = question.answer(problem, whole())
    total = reduce(add, (question.answer(problem, silo) for silo in silos()))
    if question.additive:
        np.testing.assert_allclose(total, together, rtol=1e-9, atol=1e-9)
    engine = Pooled(FEDERATION)
    for silo, own in zip((*engine.silos, engine.whole), (*silos(), whole()), strict=True):
        silo.train = own.train
    if question.additive:
        read = engine.ask(problem, question)
        np.testing.assert_allclose(case.pack(read), total, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", list(Order))
def test_with_the_same_totals_a_round_adds_up_too(order: Order) -> None:
    question = asked_round(PROBLEM, order.value)
    total = reduce(add, (question.answer(PROBLEM, silo) for silo in silos()))
    np.testing.assert_allclose(total, question.answer(PROBLEM, whole()), rtol=1e-10, atol=1e-12)


@EACH
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    case = CASES[name]
    question = case.question()
    arrays = [f.name for f in fields(question) if isinstance(getattr(question, f.name), np.ndarray)]
    for one in arrays:
        value = getattr(question, one)
        lost = np.where(np.arange(value.size) == 0, np.nan, value)
        wrong = [np.append(value, 0.0), value[None], value[:, None]]
        if value.size:
            wrong += [lost, np.where(np.isnan(lost), -np.inf, value)]
        # Evaluate and Repair without numbers are about the silo's own model.
        wrong += [value[:-1]] if value.size > 1 else []
        for bad in wrong:
            with pytest.raises(Unfit):
                replace(question, **{one: bad}).check(case.problem)


def test_other_fields_that_do_not_fit_are_refused() -> None:
    by_gradients = replace(PROBLEM, solver=Agp())
    for question, problem in (
        (asked_round(PROBLEM, "third"), PROBLEM),
        (Counts(True), replace(PROBLEM, rest=False)),
        (asked_round(PROBLEM, "first", rest=True), replace(PROBLEM, rest=False)),
        (Cells(THETA, True), by_gradients),
        (Repair("alchemy", THETA), PROBLEM),
        (replace(local(PROBLEM), turn=-1), PROBLEM),
        *((replace(local(PROBLEM), rho=rho), PROBLEM) for rho in (0.0, -1.0, np.inf, np.nan)),
    ):
        with pytest.raises(Unfit):
            question.check(problem)
    Cells(THETA, False).check(by_gradients)


def test_silos_refuse_what_they_cannot_answer() -> None:
    (first, *_) = silos()
    none = np.zeros_like(totals(PROBLEM))
    open_problem = replace(PROBLEM, promise=None)
    for question, problem in (
        (replace(asked_round(PROBLEM, "first"), totals=none), PROBLEM),
        (Evaluate(np.zeros(0)), PROBLEM),
        (Repair("ceo", np.zeros(0)), PROBLEM),
        (NoisyCounts(), open_problem),
        (Cells(THETA, False), open_problem),
        (Outcomes(THETA), open_problem),
    ):
        question.check(problem)
        with pytest.raises(Unfit):
            question.answer(problem, first)


@EACH
def test_only_what_carries_noise_has_messages_and_a_price(name: str) -> None:
    case = CASES[name]
    question = case.question()
    if not question.private:
        with pytest.raises(Unfit, match="no differential privacy"):
            question.messages(case.problem, whole())
        assert question.releases(case.problem) == []
        return
    messages = question.messages(case.problem, whole())
    assert [one.release for one in messages] == question.releases(case.problem)
    np.testing.assert_array_equal(
        np.concatenate([one.values for one in messages]), question.answer(case.problem, whole())
    )
    # One row more or less moves a message by no more than its sensitivity.
    fewer = whole()
    fewer.train = part(slice(1, None))
    for one, other in zip(messages, question.messages(case.problem, fewer), strict=True):
        moved = np.linalg.norm(one.values - other.values)
        assert 0 < moved <= one.sensitivity * (1 + 1e-9)


def test_sums_that_no_rows_could_give_are_named() -> None:
    start = replace(asked_round(PROBLEM, "first"), theta=np.zeros(FEATURES + 1))
    sound = reduce(add, (start.answer(PROBLEM, silo) for silo in silos()))
    assert not start.implausible(PROBLEM, sound)
    assert sound[0] == pytest.approx(np.log(2))
    for place, value, why in ((0, -0.1, "negative"), (0, 0.5, "log"), (1, 0.1, "gap")):
        vector = sound.copy()
        vector[place] = value
        assert why in start.implausible(PROBLEM, vector)
    # A group's own mean loss is log 2 at the start, which is no gap.
    alone = NOTIONS["bounded-loss"].constraints(comparisons([0, 1], "pairs"), [1], 2)
    limited = replace(PROBLEM, constraints=alone)
    first = replace(asked_round(limited, "first"), theta=np.zeros(FEATURES + 1))
    sums = reduce(add, (first.answer(limited, silo) for silo in silos()))
    assert sums[1] == pytest.approx(np.log(2))
    assert not first.implausible(limited, sums)
    counts = totals(PROBLEM)
    assert Counts().implausible(PROBLEM, counts - 2 * counts.max() * (np.arange(len(counts)) == 2))
    assert Counts().implausible(PROBLEM, np.where(np.arange(len(counts)) == 0, 1.0, counts))
    columns = Columns().answer(PROBLEM, whole())
    assert Columns().implausible(PROBLEM, np.where(np.arange(7) == 1, 1e6, columns))
    assert Columns().implausible(PROBLEM, np.where(np.arange(7) == 6, -1.0, columns))
    seen = Evaluate(THETA).answer(PROBLEM, whole())
    assert Evaluate(THETA).implausible(PROBLEM, np.where(np.arange(len(seen)) == 0, -3.0, seen))


def test_counts_and_columns_are_those_of_the_table() -> None:
    read = Counts().read(PROBLEM, totals(PROBLEM))
    assert read.rows == FEDERATION.rows
    np.testing.assert_array_equal(read.cells, count_cells(FEDERATION.y, FEDERATION.s, 2, 2))
    assert read.taking_part.tolist() == [len(SIZES)]
    columns = Columns().read(PROBLEM, Columns().answer(PROBLEM, whole()))
    present = FRAME[["a", "b"]].notna().sum().to_numpy()
    np.testing.assert_array_equal(columns.count, present)
    np.testing.assert_allclose(columns.total, FRAME[["a", "b"]].sum())
    np.testing.assert_allclose(columns.squares, (FRAME[["a", "b"]] ** 2).sum())
    bounded = NoisyColumns().answer(PROBLEM, whole())
    np.testing.assert_array_equal(bounded, bounded_sums(FRAME, SCHEMA))


@pytest.mark.parametrize("problem", [PROBLEM, CLAIMED], ids=["own class", "claimed"])
@pytest.mark.parametrize("model", [logistic_regression(3), mlp(3)], ids=["lr", "mlp"])
def test_a_silos_own_model_is_evaluated_as_a_common_one(model: Any, problem: Problem) -> None:
    problem, theta = replace(problem, model=model), model.start(3) + 0.1
    for silo in silos():
        common = Evaluate(theta).answer(problem, silo)
        silo.own = Plain(model, theta)
        np.testing.assert_allclose(Evaluate(np.zeros(0)).answer(problem, silo), common, rtol=1e-10)


def test_an_audit_leaves_small_cells_out() -> None:
    (first, *_) = silos()
    first.min_cell = 1_000
    shown, hidden = (Evaluate(THETA, audit=a).answer(PROBLEM, first) for a in (False, True))
    assert shown[:8].sum() == len(first.train)
    assert not hidden[:8].any()
    np.testing.assert_array_equal(hidden[16:20], np.ones(4))
    # The certificate of a training run is of all test rows.
    _, test = Evaluate(THETA).read(PROBLEM, shown)
    assert test.tally.counts.sum() == len(first.test.y)
    assert not test.hidden.any()


@pytest.mark.parametrize("measure", ["loss", "rate"])
@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize(("classes", "cut"), [(2, 0.5), (2, 0.1), (3, 0.5)])
def test_sums_in_numpy_are_those_of_the_compiler(
    classes: int, cut: float, order: Order, measure: Measure
) -> None:
    rng = np.random.default_rng(classes)
    n, model = 70, replace(logistic_regression(4, classes), cut=cut)
    x, y = rng.normal(size=(n, 4)), rng.integers(0, classes, n)
    w, v = rng.random(n), rng.normal(size=(2, n))
    w[:20] = 0.0  # rows that are asked again under a claim weigh nothing in the objective
    theta, mu = rng.normal(size=model.size), rng.normal(size=2)
    for at in (theta, 40 * theta, np.zeros_like(theta)):
        ours = linear_sums(order.value, x, y, w, v, at, mu, classes, measure, cut)
        rows = Rows(*map(jnp.asarray, (x, y, w, v)))
        query = Query(jnp.asarray(at), jnp.asarray(mu))
        theirs = flatten(compiled_sums(model, order, rows, query, measure))
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_multipliers_stay_in_the_silo_and_step_once_a_turn() -> None:
    """By hand: lambda becomes max(0, lambda + rho g) at the theta and rho before the turn."""
    (silo, *_) = silos()
    problem = replace(PROBLEM, epsilon=0.01)
    counts = totals(problem)
    asked = Local(THETA, 10.0, 0, counts)
    cells = [(silo.train.s == g) & (silo.train.y == 1) for g in (0, 1)]
    losses = Plain(problem.model, THETA).losses(silo.train.x, silo.train.y, silo.train.s)
    gap = losses[cells[0]].mean() - losses[cells[1]].mean()
    share = losses.sum() / counts[0]

    def value(before: Floats, rho: float) -> tuple[float, Floats]:
        over = np.array([gap - 0.01, -gap - 0.01])
        after = np.maximum(before + rho * over, 0)
        return float(share + np.sum(after**2 - before**2) / (2 * rho)), after

    none = np.zeros(2)
    want, stepped = value(none, 10.0)
    assert stepped.any()
    for _ in range(2):
        assert asked.answer(problem, silo)[0] == pytest.approx(want)
    later = replace(asked, turn=1, rho=40.0)
    want, again = value(stepped, 40.0)
    for _ in range(2):
        assert later.answer(problem, silo)[0] == pytest.approx(want)
    np.testing.assert_allclose(silo.memory["1"], [40.0, *stepped])
    want, _ = value(again, 40.0)
    assert replace(later, turn=2).answer(problem, silo)[0] == pytest.approx(want)
    # What was asked before a turn is answered as it was.
    assert later.answer(problem, silo)[0] == pytest.approx(value(stepped, 40.0)[0])
    with pytest.raises(Unfit, match="no multipliers of the turn before"):
        replace(later, turn=4).answer(problem, silo)
    # Another training begins without multipliers.
    assert asked.answer(problem, silo)[0] == pytest.approx(value(none, 10.0)[0])


def test_the_augmented_lagrangian_has_these_derivatives() -> None:
    (silo, *_) = silos()
    problem = replace(PROBLEM, epsilon=0.01)
    counts = totals(problem)

    def read(theta: Floats) -> Any:
        asked = Local(theta, 10.0, 0, counts)
        return asked.read(problem, asked.answer(problem, silo))[0]

    sums, h = read(THETA), 1e-5
    for k, step in enumerate(h * np.eye(FEATURES + 1)):
        up, down = read(THETA + step), read(THETA - step)
        assert float(sums.grad[k]) == pytest.approx(float(up.loss - down.loss) / (2 * h), abs=1e-7)
        np.testing.assert_allclose(sums.hess[k], (up.grad - down.grad) / (2 * h), atol=1e-6)
