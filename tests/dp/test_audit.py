"""Canaries: bets on a row's presence win no more than was promised, and more with less noise."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.dp_audit import audit, bound, scores
from scipy.stats import binom

from fairsilo.dp import Budget

PROMISE = Budget(1.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "additive"])
def test_bets_on_all_releases_stay_below_the_promise_and_catch_half_the_noise(model: str) -> None:
    """A thousand pairs of trainings each; the seed makes the test repeatable."""
    honest = audit(1000, PROMISE, 1.0, np.random.default_rng(0).bytes, model)
    assert honest.epsilon <= PROMISE.epsilon
    assert 0.5 < honest.guess < 1.7, "the bets use what there is to see"
    halved = audit(1000, PROMISE, 0.5, np.random.default_rng(1).bytes, model)
    assert halved.epsilon > PROMISE.epsilon
    assert halved.any_epsilon < halved.epsilon


@pytest.mark.long
def test_with_more_bets_the_bound_comes_close() -> None:
    """With the operating system's noise. Either fails by chance once in a million times."""
    assert 0.6 < audit(20_000, PROMISE).guess < 1.3
    assert audit(20_000, PROMISE, 0.5).epsilon > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "additive"])
def test_the_score_is_the_logarithm_of_a_likelihood_ratio(model: str) -> None:
    """The mean of exp(score) without the canary is then 1, whatever the trainings did."""
    found = scores(np.zeros(1000), PROMISE, 1.0, np.random.default_rng(2).bytes, model)
    ratios = np.exp(found)
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(1000)
    assert ratios.std() > 0.15


@pytest.mark.parametrize("lost", [0, 3, 30])
def test_the_bound_is_clopper_and_pearsons(lost: int) -> None:
    """At the worst rate of losses that the bound allows, so few are lost once in forty times."""
    bets = np.repeat([1.0, -1.0], [100 - lost, lost])
    found = bound(bets, -bets, 1e-5)
    worst = (1 - 1e-5) / (np.exp(found.any_epsilon) + 1)
    assert binom.cdf(lost, 100, worst) == pytest.approx(0.025, rel=0.01)
    assert found.epsilon > found.any_epsilon
    assert bound(-bets, bets, 1e-5).epsilon == 0
