"""The ledger against independent calculations."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.integrate import quad
from scipy.stats import norm

from fairsilo.dp import Budget, BudgetSpent, Ledger, Plan, Release, Split, epsilon_of
from fairsilo.errors import FairSiloError


def delta_by_integral(multiplier: float, epsilon: float) -> float:
    """The largest P(S) - e^epsilon Q(S) of N(1, z^2) against N(0, z^2), integrated as defined.

    P exceeds e^epsilon Q beyond one point, so S is all to the right of it.
    """
    edge = 0.5 + epsilon * multiplier**2
    p, q = norm(1, multiplier).pdf, norm(0, multiplier).pdf
    # Beyond the edge both densities fall within a few multiples of z.
    whole, _ = quad(
        lambda x: p(x) - math.exp(epsilon) * q(x), edge, edge + 40 * multiplier, epsabs=1e-14
    )
    return float(whole)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_spent_epsilon_is_that_of_the_gaussian_mechanism(epsilon: float) -> None:
    budget = Budget(epsilon, 1e-5)
    multiplier = budget.total**-0.5
    assert delta_by_integral(multiplier, epsilon) == pytest.approx(1e-5, rel=1e-4)
    spent = epsilon_of((Release("sums", multiplier),), 1e-5)
    assert spent == pytest.approx(epsilon, rel=1e-5)
    assert spent <= epsilon


def test_releases_compose_as_one_by_one() -> None:
    multipliers = [5.0, 5.0, 5.0, 8.0, 12.0]
    accountant = PLDAccountant()
    for multiplier in multipliers:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
    together = epsilon_of(tuple(Release("sums", m) for m in multipliers), 1e-5)
    assert together == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-5)
    single = 1 / math.sqrt(sum(m**-2 for m in multipliers))
    assert delta_by_integral(single, together) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize("rows", [2, 5, 10])
def test_a_person_with_several_rows_has_more_than_so_many_times_the_epsilon(rows: int) -> None:
    """Against the definition and against dp-accounting's privacy loss distributions."""
    multipliers = [12.0, 12.0, 20.0]
    told = epsilon_of(tuple(Release("sums", m) for m in multipliers), 1e-5, rows)
    single = 1 / math.sqrt(sum(m**-2 for m in multipliers))
    assert delta_by_integral(single / rows, told) == pytest.approx(1e-5, rel=1e-3)
    accountant = PLDAccountant()
    for multiplier in multipliers:
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier / rows))
    assert told == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_five_rows_at_four_are_thirty_and_not_twenty() -> None:
    """The figures of docs/threat-model.md."""
    only = (Release("sums", Budget(4.0, 1e-5).total ** -0.5),)
    told = [epsilon_of(only, 1e-5, rows) for rows in (2, 5, 10)]
    assert told == pytest.approx([9.1, 29.7, 81.4], abs=0.05)


@pytest.mark.parametrize("curvature", [False, True])
def test_a_plan_spends_its_budget_and_not_more(curvature: bool) -> None:
    budget, rounds = Budget(1.0, 1e-5), 7
    plan = Plan.of(budget, Split(0.2, 0.5, 0.3), rounds, curvature)
    ledger = Ledger(budget)
    once = ["encoder", "counts", "final"] + ["curvature"] * curvature
    for name in once:
        ledger.charge(Release(name, getattr(plan, name)))
    for _ in range(rounds):
        ledger.charge(Release("gradient", plan.gradient))
        ledger.charge(Release("loss", plan.loss))
    assert ledger.epsilon == pytest.approx(1.0, rel=1e-4)
    assert ledger.epsilon <= 1.0
    before = list(ledger.releases)
    with pytest.raises(BudgetSpent, match="privacy budget"):
        ledger.charge(Release("gradient", plan.gradient))
    assert ledger.releases == before


def test_shares_are_what_was_asked_for() -> None:
    plan = Plan.of(Budget(2.0, 1e-6), Split(0.2, 0.5, 0.3), 4, curvature=True)
    costs = np.array([plan.encoder, plan.counts]) ** -2.0
    total = Budget(2.0, 1e-6).total
    assert costs.sum() == pytest.approx(0.2 * total)
    assert plan.curvature**-2 + 4 * plan.gradient**-2 == pytest.approx(0.5 * total)
    assert plan.final**-2 + 4 * plan.loss**-2 == pytest.approx(0.3 * total)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.0), (0.5, 0.4, 0.2), (-0.1, 0.9, 0.2)])
def test_wrong_shares_are_refused(shares: tuple[float, float, float]) -> None:
    with pytest.raises(FairSiloError, match="add up to 1"):
        Split(*shares)
