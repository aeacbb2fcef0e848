"""The private engine without noise is the engine; with noise its noise is the promised one."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.compute import jnp
from fairsilo.dp import Budget, BudgetSpent, Clip, Ledger, Mechanism, Plan, Release, Split
from fairsilo.engine import Clientwise, Private, Rows, noisy_counts, noisy_outcomes
from fairsilo.fairness import Dgeo
from fairsilo.fairness.constraint import count_cells
from fairsilo.fairness.weigh import totals_of, weigh
from fairsilo.model import logistic_regression
from fairsilo.model.loss import cross_entropy
from fairsilo.solver import Newton, Noisy, Order, Query
from tests.tables import RandomTable, make

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


def engine(table: RandomTable, plan: Plan, clip: Clip, whole: bool, seed: int = 0) -> Private:
    federation = table.federation
    counts = count_cells(federation.y, federation.s, 2, 2).astype(float)
    model = logistic_regression(3)
    return Private(model, federation, [PAIR], counts, unlimited(seed), plan, clip, whole)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("order", list(Order))
def test_without_noise_the_sums_are_the_plain_ones(order: Order, whole: bool) -> None:
    table = make(3, SIZES, 3)
    federation = table.federation
    w, v = weigh(federation, [PAIR], "pooled", totals_of(federation, [PAIR]))
    rows = Rows(federation.x, federation.y, w, v)  # type: ignore[arg-type]
    plain = Clientwise(logistic_regression(3), rows, federation.offsets)
    # The curvature is that of L alone, so the plain one is asked without a multiplier.
    query = Query(jnp.asarray(table.package_theta), jnp.zeros(1))
    wanted = plain.answer(query, order)
    found = engine(table, QUIET, WIDE, whole).answer(query, order)
    for name in ("loss", "d", "grad", "jac", "hess"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_multiplier_mixes_released_gradients() -> None:
    table = make(3, SIZES, 3)
    theta = jnp.asarray(table.package_theta)
    first = engine(table, QUIET, WIDE, True).answer(Query(theta, jnp.zeros(1)), Order.FIRST)
    mixed = engine(table, QUIET, WIDE, True).answer(
        Query(theta, jnp.asarray([0.7])), Order.LAGRANGIAN
    )
    assert first.jac is not None
    np.testing.assert_allclose(mixed.grad, first.grad + 0.7 * first.jac[0], atol=1e-5)


@pytest.mark.parametrize("whole", [True, False])
def test_noise_in_the_gradient_is_as_told(whole: bool) -> None:
    table, clip = make(3, SIZES, 3), Clip(0.5, 2.0)
    plan = Plan(*[3.0] * 6)
    query = Query(jnp.asarray(table.package_theta), jnp.zeros(1))
    private = engine(table, plan, clip, whole, seed=5)
    answers = [private.answer(query, Order.FIRST) for _ in range(400)]
    still = engine(table, QUIET, clip, whole).answer(query, Order.FIRST)
    noise = np.array([np.asarray(one.grad - still.grad) for one in answers])
    assert noise.std() == pytest.approx(private.gradient_noise, rel=0.1)
    gaps = np.array([float(one.d[0] - still.d[0]) for one in answers])
    one = private.mechanism.deviation(clip.loss, plan.loss)
    assert gaps.std() == pytest.approx(one * np.hypot(*(1 / private.server.sizes)), rel=0.15)
    assert len(private.mechanism.ledger.releases) == 800


def test_counts_and_outcomes_without_noise_are_the_true_ones() -> None:
    table = make(3, SIZES, 3)
    federation, mechanism = table.federation, unlimited()
    cells = count_cells(federation.y, federation.s, 2, 2)
    np.testing.assert_allclose(noisy_counts(federation, mechanism, QUIET), cells, atol=1e-5)
    model, theta = logistic_regression(3), table.package_theta
    losses, right = noisy_outcomes(model, federation, theta, mechanism, QUIET, WIDE)
    scores = model.scores(jnp.asarray(theta), jnp.asarray(federation.x))
    each = np.asarray(cross_entropy(scores, jnp.asarray(federation.y)))
    hit = (np.asarray(scores)[:, 0] > 0) == (federation.y == 1)
    for g in range(2):
        for c in range(2):
            here = (federation.s == g) & (federation.y == c)
            assert losses[g, c] == pytest.approx(each[here].sum(), abs=1e-4)
            assert right[g, c] == pytest.approx(hit[here].sum(), abs=1e-4)


@pytest.mark.slow
def test_training_stops_before_the_budget_is_passed() -> None:
    table = make(3, SIZES, 3)
    budget = Budget(1.0, 1e-5)
    plan = Plan.of(budget, Split(), 3, curvature=True)
    mechanism = Mechanism(Ledger(budget), len(SIZES), 3)
    counts = noisy_counts(table.federation, mechanism, plan)
    model = logistic_regression(3)
    private = Private(model, table.federation, [PAIR], counts, mechanism, plan, Clip())
    with pytest.raises(BudgetSpent):
        private.solve(Noisy(99, 0.0), model.start(0), [0.1], rounds=99)
    assert mechanism.ledger.epsilon <= 1.0


def test_the_noisy_solver_without_noise_finds_the_constrained_optimum() -> None:
    """Only the curvature of the start, and a ridge: slower than Newton, to the same point."""
    table = make(3, SIZES, 3)
    federation = table.federation
    w, v = weigh(federation, [PAIR], "pooled", totals_of(federation, [PAIR]))
    rows = Rows(federation.x, federation.y, w, v)  # type: ignore[arg-type]
    model = logistic_regression(3)
    start, epsilon = model.start(0), [0.01]
    exact = Clientwise(model, rows, federation.offsets).solve(Newton(), start, epsilon, 50)
    found = engine(table, QUIET, WIDE, True).solve(Noisy(200, 0.0), start, epsilon, 200)
    assert abs(float(exact.last.mu[0])) > 1e-4, "the limit must bind for this to mean something"
    np.testing.assert_allclose(found.theta, exact.theta, atol=1e-3)
    np.testing.assert_allclose(found.last.mu, exact.last.mu, atol=1e-3)
