"""Without noise the private engine equals the plain one; with noise, the noise is as planned."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.compute import jnp
from fairsilo.dp import Budget, BudgetSpent, Clip, Ledger, Mechanism, Plan, Release, Split
from fairsilo.engine import FromCells, Private, silos_of
from fairsilo.engine.base import answers
from fairsilo.engine.loop import drive
from fairsilo.fairness import NOTIONS, Constraint, Dgeo, comparisons
from fairsilo.fairness.constraint import count_cells
from fairsilo.model import logistic_regression
from fairsilo.model.loss import cross_entropy
from fairsilo.partition.federation import Federation
from fairsilo.question import Cells, Outcomes, Problem
from fairsilo.question.base import Promise
from fairsilo.solver import Noisy, Order, Query, Sums
from tests.method.tasks import engine_of, problem_of
from tests.tables import make

PAIR = Dgeo(0, 1, 1)
SIZES = [30, 20, 50, 40]
WIDE = Clip(gradient=20.0, loss=20.0)
"""Clips nothing."""
QUIET = Plan(*[1e-6] * 6)
"""Hardly any noise."""


class Open(Ledger):
    """A ledger without a limit, so that a test can have as little noise as it wants."""

    def charge(self, release: Release) -> None:
        self.releases.append(release)


def unlimited(seed: int = 0) -> Mechanism:
    ledger = Open(Budget(1.0, 1e-5))
    return Mechanism(ledger, len(SIZES), 3, np.random.default_rng(seed).bytes)


def private(
    rows: Federation,
    plan: Plan = QUIET,
    clip: Clip = WIDE,
    whole: bool = True,
    seed: int = 0,
    pairs: tuple[Constraint, ...] = (PAIR,),
) -> tuple[Problem, Private]:
    problem = problem_of(rows, estimator="pooled", promise=Promise(plan, clip), pairs=pairs)
    return problem, Private(silos_of(rows), unlimited(seed), whole)


def server_of(rows: Federation, problem: Problem, engine: Private) -> FromCells:
    """The arithmetic on released sums, with the true counts."""

    def ask(theta: np.ndarray, curvature: bool) -> list[np.ndarray]:
        found: list[np.ndarray] = engine.ask(problem, Cells(theta, curvature))
        return found

    counts = count_cells(rows.y, rows.s, *problem.shape).astype(float)
    return FromCells(problem.constraints, counts, ask)


def assert_same(found: Sums, wanted: Sums) -> None:
    for name in ("loss", "d", "grad", "jac", "hess"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("order", list(Order))
def test_without_noise_the_sums_are_the_plain_ones(order: Order, whole: bool) -> None:
    table = make(3, SIZES, 3)
    rows = table.federation
    problem, engine = private(rows, whole=whole)
    # The private curvature is that of L alone, so the plain query has multiplier zero.
    query = Query(jnp.asarray(table.package_theta), jnp.zeros(1))
    wanted = answers(engine_of(rows, "clientwise"), problem)(query, order)
    assert_same(server_of(rows, problem, engine).answer(query, order), wanted)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("against", ["pairs", "rest"])
@pytest.mark.parametrize(
    "notion", ["equal-opportunity", "equalized-odds", "accuracy-parity", "bounded-loss"]
)
def test_every_notion_without_claims_is_made_of_cells(
    notion: str, against: str, groups: int
) -> None:
    rng = np.random.default_rng(groups)
    n = sum(SIZES)
    rows = Federation.of(
        rng.normal(size=(n, 3)), rng.integers(0, 2, n), rng.integers(0, groups, n),
        np.repeat(np.arange(len(SIZES)), SIZES), groups=groups, classes=2,
    )  # fmt: skip
    sides = comparisons(range(groups), against)  # type: ignore[arg-type]
    constraints = NOTIONS[notion].constraints(sides, [1], 2)
    problem, engine = private(rows, Plan(*[1e-7] * 6), pairs=constraints)
    pairs = len(problem.constraints)
    theta = jnp.asarray(rng.normal(size=4))
    plain, server = engine_of(rows, "clientwise"), server_of(rows, problem, engine)
    wanted = answers(plain, problem)(Query(theta, jnp.zeros(pairs)), Order.SECOND)
    assert_same(server.answer(Query(theta, jnp.zeros(pairs)), Order.SECOND), wanted)
    pushed = Query(theta, jnp.asarray(rng.normal(size=pairs)))
    wanted = answers(plain, problem)(pushed, Order.LAGRANGIAN)
    assert_same(server.answer(pushed, Order.LAGRANGIAN), wanted)


def test_the_multiplier_mixes_released_gradients() -> None:
    table = make(3, SIZES, 3)
    theta = jnp.asarray(table.package_theta)
    server = server_of(table.federation, *private(table.federation))
    first = server.answer(Query(theta, jnp.zeros(1)), Order.FIRST)
    mixed = server.answer(Query(theta, jnp.asarray([0.7])), Order.LAGRANGIAN)
    assert first.jac is not None
    np.testing.assert_allclose(mixed.grad, first.grad + 0.7 * first.jac[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
def test_noise_in_the_gradient_is_as_told(whole: bool) -> None:
    table, clip = make(3, SIZES, 3), Clip(0.5, 2.0)
    rows, plan = table.federation, Plan(*[3.0] * 6)
    query = Query(jnp.asarray(table.package_theta), jnp.zeros(1))
    problem, engine = private(rows, plan, clip, whole, seed=5)
    server = server_of(rows, problem, engine)
    found = [server.answer(query, Order.FIRST) for _ in range(400)]
    still = server_of(rows, *private(rows, QUIET, clip, whole)).answer(query, Order.FIRST)
    noise = np.array([np.asarray(one.grad - still.grad) for one in found])
    told = server.noise(engine.deviation(clip.gradient, plan.gradient))
    assert noise.std() == pytest.approx(told, rel=0.1)
    gaps = np.array([float(one.d[0] - still.d[0]) for one in found])
    one = engine.deviation(clip.loss, plan.loss)
    sizes = count_cells(rows.y, rows.s, 2, 2)[:, 1]
    assert gaps.std() == pytest.approx(one * np.hypot(*(1 / sizes)), rel=0.15)
    assert len(engine.mechanism.ledger.releases) == 800
    assert engine.noise(problem) == pytest.approx(told, rel=0.2)  # with counts of its own


def test_counts_and_outcomes_without_noise_are_the_true_ones() -> None:
    table = make(3, SIZES, 3)
    rows, theta = table.federation, table.package_theta
    problem, engine = private(rows)
    cells = count_cells(rows.y, rows.s, 2, 2)
    np.testing.assert_allclose(engine.counts(problem), cells, atol=1e-5)
    np.testing.assert_array_equal(engine.count(problem).cells, cells)
    losses, right = engine.ask(problem, Outcomes(theta))
    scores = problem.model.scores(jnp.asarray(theta), jnp.asarray(rows.x))
    each = np.asarray(cross_entropy(scores, jnp.asarray(rows.y)))
    hit = (np.asarray(scores)[:, 0] > 0) == (rows.y == 1)
    for g in range(2):
        for c in range(2):
            here = (rows.s == g) & (rows.y == c)
            assert losses[g, c] == pytest.approx(each[here].sum(), abs=1e-4)
            assert right[g, c] == pytest.approx(hit[here].sum(), abs=1e-4)


def test_training_stops_before_the_budget_is_passed() -> None:
    rows = make(3, SIZES, 3).federation
    budget = Budget(1.0, 1e-5)
    promise = Promise(Plan.of(budget, Split(), 3, curvature=True), Clip())
    mechanism = Mechanism(Ledger(budget), len(SIZES), 3)
    problem = problem_of(rows, estimator="pooled", epsilon=0.1, rounds=99, promise=promise)
    with pytest.raises(BudgetSpent):
        Private(silos_of(rows), mechanism).solve(problem)
    assert mechanism.ledger.epsilon <= 1.0
    assert [one.name for one in mechanism.ledger.releases].count("gradients") == 3


def test_the_noisy_solver_without_noise_finds_the_constrained_optimum() -> None:
    """With only the start's curvature and a ridge, slower than Newton, but to the same point."""
    rows = make(3, SIZES, 3).federation
    model = logistic_regression(3)
    exact = engine_of(rows, "clientwise").solve(
        problem_of(rows, estimator="pooled", epsilon=0.01, rounds=50)
    )
    server = server_of(rows, *private(rows))
    found = drive(Noisy(200, 0.0), server.answer, model.start(0), [0.01], 200)
    assert abs(float(exact.last.mu[0])) > 1e-4, "the limit must bind for this to mean something"
    np.testing.assert_allclose(found.theta, exact.theta, atol=1e-3)
    np.testing.assert_allclose(found.last.mu, exact.last.mu, atol=1e-3)
