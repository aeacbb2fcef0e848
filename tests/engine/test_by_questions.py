"""Methods by questions to silos train the same models as in one program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairsilo.engine import Clientwise
from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS, Constraint, Dgeo, Estimator, comparisons
from fairsilo.method import METHODS, Trained
from fairsilo.method.fedfair import fedfair
from fairsilo.method.lco import lco
from fairsilo.method.repair import Repair
from fairsilo.predictor import Plain
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds
from fairsilo.question import (
    Problem,
    Question,
    Round,
)
from fairsilo.solver import Agp, Lbfgs, Newton, Status
from tests.engine.asked import FEATURES
from tests.method.tasks import PAIR, biased, posed, problem_of

LIMITS = {
    ("bounded-loss", "pooled"): 0.4513,
    ("bounded-loss", "mean"): 0.4549,
    ("accuracy-parity", "pooled"): 0.005,
    ("accuracy-parity", "mean"): 0.005,
}
"""Limits that bind and can be kept; 0.02 for the other notions."""


def both(rows: Any, method: str = "fedfair", **asked: Any) -> tuple[Trained, Trained]:
    """The method in one program, and by questions to silos."""
    one, other = (
        METHODS[method](*posed(rows, engine=engine, **asked)) for engine in ("pooled", "clientwise")
    )
    return one, other


@pytest.mark.parametrize("estimator", ["pooled", "mean"])
@pytest.mark.parametrize("notion", NOTIONS)
def test_pooled_and_clientwise_train_the_same_model(notion: str, estimator: Estimator) -> None:
    rows = biased(4, [400, 300, 350])
    constraints = NOTIONS[notion].constraints(comparisons([0, 1], "pairs"), [1], 2)
    one, other = both(
        rows, pairs=constraints, estimator=estimator, epsilon=LIMITS.get((notion, estimator), 0.02)
    )
    assert one.outcome.status is other.outcome.status is Status.CONVERGED
    assert one.outcome.rounds == other.outcome.rounds
    assert np.abs(one.outcome.last.mu).max() > 1e-3, "the limit must bind"
    np.testing.assert_allclose(other.outcome.theta, one.outcome.theta, atol=1e-8)
    np.testing.assert_allclose(other.outcome.history.d, one.outcome.history.d, atol=1e-8)
    assert (one.numbers_up, one.numbers_down) == (other.numbers_up, other.numbers_down)


def test_several_groups_and_classes_small_cells_and_limits_of_their_own() -> None:
    rng = np.random.default_rng(5)
    rows = biased(6, [300, 250, 40], groups=3)
    y = np.where((rows.y == 1) & (rng.random(rows.rows) < 0.4), 2, rows.y)
    rows = replace(rows, y=y, classes=3)
    pairs: tuple[Constraint, ...] = (Dgeo(0, 1, 1), Dgeo(0, 2, 2), Dgeo(1, 2, 1))
    one, other = both(rows, pairs=pairs, epsilon=(0.01, 0.05, 0.03), min_cell=6)
    assert one.outcome.status is Status.CONVERGED
    assert one.notes == other.notes
    assert "fewer than 6 rows" in one.notes[0]
    assert (np.abs(one.outcome.last.d) <= np.array([0.01, 0.05, 0.03]) + 1e-6).all()
    # With as many scores as classes theta itself is not unique, but the probabilities are.
    ours, theirs = (found.predictors[0].probabilities(rows.x, rows.s) for found in (one, other))
    np.testing.assert_allclose(theirs, ours, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "sizes", "epsilon"),
    [
        (2, [150, 200, 120], 0.03),
        (2, [60, 80], 0.1),
        (2, [40] * 12, 0.1),
        # Here a constraint is active on the way that is slack at the optimum.
        (3, [30, 50, 70, 40], 0.03),
        (3, [30, 50, 70, 40], 0.1),
    ],
)
def test_lco_by_questions_reaches_the_optimum_of_one_program(
    seed: int, sizes: list[int], epsilon: float
) -> None:
    rows = biased(seed, sizes)
    one, other = both(rows, "lco", epsilon=epsilon, rounds=400)
    assert one.outcome.status is other.outcome.status is Status.CONVERGED
    assert np.abs(one.outcome.last.mu).max() > 1e-3, "the limit must bind"
    np.testing.assert_allclose(other.outcome.theta, one.outcome.theta, atol=1e-5)
    assert float(other.outcome.last.loss) == pytest.approx(float(one.outcome.last.loss), abs=1e-5)
    assert float(other.outcome.last.violation) <= 1e-5
    size = FEATURES + 1
    assert other.numbers_up == 1 + size + size * (size + 1) // 2 + 2


@pytest.mark.slow
def test_a_silo_is_asked_of_several_trainings_in_turn() -> None:
    """What it remembers of one (weights, multipliers) must not reach the next."""
    rows = biased(2, [150, 200, 120])
    pairs: tuple[Constraint, ...] = (PAIR, Dgeo(0, 1, 0))
    problem, engine = posed(rows, epsilon=0.03, rounds=400, engine="clientwise")
    for method, asked in (
        (fedfair, problem),
        (lco, problem),
        (lco, replace(problem, epsilon=0.1)),
        (lco, replace(problem, constraints=pairs)),
        (fedfair, replace(problem, constraints=pairs)),
        (fedfair, replace(problem, estimator="pooled")),
        (fedfair, replace(problem, constraints=pairs[1:])),
        (lco, problem),
    ):
        fresh = posed(rows, engine="clientwise")[1]
        found, alone = method(asked, engine), method(asked, fresh)
        np.testing.assert_array_equal(found.outcome.theta, alone.outcome.theta)


def test_rows_set_aside_depend_on_the_seed_of_the_training() -> None:
    problem, engine = posed(biased(2, [60, 80]), engine="clientwise", rest=True)
    first, second = (engine.solve(replace(problem, seed=seed)).theta for seed in (0, 1))
    assert (first != second).any()
    np.testing.assert_array_equal(engine.solve(problem).theta, first)


@pytest.mark.parametrize("solver", [Lbfgs(), Agp()], ids=["lbfgs", "agp"])
def test_lco_by_questions_needs_second_derivatives(solver: Lbfgs | Agp) -> None:
    problem, engine = posed(biased(2, [60, 80]), engine="clientwise", solver=solver)
    with pytest.raises(FairSiloError, match="use `solver` newton"):
        lco(problem, engine)


def test_af_by_questions_trains_the_same_model() -> None:
    rows = biased(6, [130, 145, 90])
    one, other = both(rows, "af", epsilon=0.05, rounds=600, hidden=(1,))
    assert one.outcome.status is other.outcome.status is Status.CONVERGED
    # Which steps are taken is left to rounding; where they end is not.
    np.testing.assert_allclose(other.outcome.theta, one.outcome.theta, atol=1e-3)
    assert float(other.outcome.last.loss) == pytest.approx(float(one.outcome.last.loss), abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["st", "eo", "ceo"])
def test_silos_own_models_by_questions_are_those_of_one_program(method: str) -> None:
    rows = biased(7, [130, 145, 90])
    one, other = both(rows, method, epsilon=0.02)
    assert one.outcome.status is other.outcome.status is Status.CONVERGED
    assert one.notes == other.notes == ()
    assert len(one.predictors) == len(other.predictors) == 3
    for ours, theirs in zip(one.predictors, other.predictors, strict=True):
        assert type(ours) is type(theirs)
        names = {EqualizedOdds: ("p2p", "n2p"), Calibrated: ("mix", "base_rate")}
        for name in names.get(type(ours), ()):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-8)
        assert getattr(ours, "stream", 0) == getattr(theirs, "stream", 0)
        mine, other_one = (getattr(model, "base", model) for model in (ours, theirs))
        assert isinstance(mine, Plain)
        assert isinstance(other_one, Plain)
        np.testing.assert_allclose(mine.theta, other_one.theta, atol=1e-8)


@pytest.mark.slow
def test_separate_training_tells_how_it_ended_and_no_more() -> None:
    """One silo lacks a cell, one has a single class, and five rounds are too few."""
    rows = biased(4, [30, 30, 60])
    y, s = rows.y.copy(), rows.s.copy()
    s[:30] = np.where(y[:30] == 1, 1, s[:30])
    y[30:60] = 1
    rows = replace(rows, y=y, s=s)
    one, other = both(rows, "st", rounds=5)
    assert one.notes == other.notes
    assert [note[0] for note in other.notes] == ["1", "1", "3"]
    assert other.outcome.status is Status.RUNNING
    assert other.outcome.theta.size == 0
    assert float(other.outcome.last.loss) == pytest.approx(float(one.outcome.last.loss), abs=1e-8)
    np.testing.assert_allclose(other.outcome.last.d, one.outcome.last.d, atol=1e-8)


@pytest.mark.slow
def test_a_minimum_of_rows_is_for_what_leaves_a_silo() -> None:
    """Separate training sends nothing of the rows, so small cells are constrained all the same."""
    one, other = both(biased(7, [60, 50]), "st", epsilon=0.01, min_cell=1_000)
    assert np.abs(one.outcome.last.mu).max() > 1e-3
    for ours, theirs in zip(one.predictors, other.predictors, strict=True):
        assert isinstance(ours, Plain)
        assert isinstance(theirs, Plain)
        np.testing.assert_allclose(ours.theta, theirs.theta, atol=1e-8)


@pytest.mark.slow
def test_a_silo_with_its_own_model_repairs_that_one() -> None:
    rows = biased(3, [120, 150])
    problem, engine = posed(rows, engine="clientwise")
    assert isinstance(engine, Clientwise)
    trained = METHODS["st"](problem, engine)
    assert engine.ask(problem, Repair("eo", np.zeros(0))) == (2, 2)
    for silo, model in zip(engine.silos, trained.predictors, strict=True):
        assert isinstance(silo.own, EqualizedOdds)
        assert silo.own.base is model


def test_newton_is_asked_for_nothing_it_does_not_need() -> None:
    """A round of AGP sends a vector, one of L-BFGS as many as there are constraints, and one."""
    rows, kinds = biased(2, [60, 80]), []

    class Seen(Clientwise):
        def ask(self, problem: Problem, question: Question) -> Any:
            if isinstance(question, Round):
                kinds.append(question.order)
            return super().ask(problem, question)

    engine = Seen(posed(rows, engine="clientwise")[1].silos)
    for solver in (Newton(), Lbfgs(), Agp()):
        kinds.clear()
        engine.solve(problem_of(rows, solver=solver, rounds=3))
        assert kinds == [solver.order.value] * 3
