"""AF: the clients' sums against the formulas read naively, and the program against its bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.optimize import linprog

from fairsilo.arrays import Floats
from fairsilo.compute import jnp
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo
from fairsilo.method.adversary import (
    ALPHA_MAX,
    POINTS,
    ColumnSums,
    covariance_row,
    kernels,
    worst_weights,
)
from fairsilo.method.agnostic import _Game, af
from fairsilo.method.agnostic_sums import (
    AdversarySums,
    Penalty,
    Weighting,
    adversary_sums,
    theta_sums,
)
from fairsilo.method.constrained import fedavg
from fairsilo.model import logistic_regression, mlp
from fairsilo.partition.federation import Federation
from fairsilo.solver import Status
from tests.method.tasks import PAIR, biased, task

THETA = np.array([-0.4, 0.8, -0.3, 1.1])
"""Bias first."""


def naive_rows(federation: Federation) -> tuple[Floats, Floats, Floats]:
    """u_j, l_j and s_j (1 in group 0), one row at a time."""
    u = np.array([THETA[0] + THETA[1:] @ x for x in federation.x])
    loss = np.array(
        [np.log(1 + np.exp(-v if y == 1 else v)) for v, y in zip(u, federation.y, strict=True)]
    )
    return u, loss, (federation.s == 0) * 1.0


def game(federation: Federation, engine: str = "clientwise") -> _Game:
    return _Game.of(task(federation, engine=engine), PAIR)


def total(federation: Federation) -> AdversarySums:
    model = logistic_regression(3)
    theta = jnp.asarray(THETA)
    result: AdversarySums = reduce(
        add, (adversary_sums(model, part, theta) for part in game(federation).parts)
    )
    return result


def test_client_sums_add_up_to_the_pooled_formulas() -> None:
    federation = biased(0, [9, 23, 14])
    kernel = np.concatenate([np.asarray(part.kernel) for part in game(federation).parts])
    u, loss, s = naive_rows(federation)
    got = total(federation)
    np.testing.assert_allclose(got.kernel, sum(kernel), rtol=1e-12)
    np.testing.assert_allclose(got.loss_kernel, sum(loss[:, None] * kernel), rtol=1e-12)
    np.testing.assert_allclose(got.group_kernel, sum(s[:, None] * kernel), rtol=1e-12)
    np.testing.assert_allclose(
        got.group_score_kernel, sum((s * u)[:, None] * kernel), rtol=1e-10, atol=1e-12
    )
    assert float(got.loss) == pytest.approx(loss.sum())
    assert float(got.score) == pytest.approx(u.sum())


def test_the_kernel_is_gaussian() -> None:
    x, z = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 0.0]])
    np.testing.assert_allclose(kernels(x, z), [[1.0], [np.exp(-25 / 8)]])


@pytest.mark.parametrize("tau", [0.01, 0.05, 1.0])
def test_the_program_keeps_its_constraints_and_beats_other_weights(tau: float) -> None:
    federation = biased(1, [60, 80, 70])
    n = federation.rows
    sums = total(federation)
    alpha = worst_weights(sums, n, n, tau)
    assert alpha is not None
    kernel = np.concatenate([np.asarray(part.kernel) for part in game(federation).parts])
    u, loss, s = naive_rows(federation)

    def gap(weights: Floats) -> float:
        """(1/n) (sum_j s_j w_j u_j - sbar_w sum_j u_j)."""
        sbar = np.mean(weights * s)
        return float((np.sum(s * weights * u) - sbar * np.sum(u)) / n)

    w = kernel @ alpha
    assert w.sum() == pytest.approx(n)
    assert ((alpha >= 0) & (alpha <= ALPHA_MAX)).all()
    assert abs(gap(w)) <= tau + 1e-9
    assert float(covariance_row(sums, n) @ alpha) == pytest.approx(gap(w))
    # Other weights within the bounds: corners of the same set in random directions.
    row = np.array([gap(column) for column in kernel.T])
    rng = np.random.default_rng(0)
    for _ in range(50):
        corner = linprog(
            rng.normal(size=POINTS),
            A_ub=np.stack([row, -row]),
            b_ub=[tau, tau],
            A_eq=kernel.sum(0)[None],
            b_eq=[n],
            bounds=(0, ALPHA_MAX),
        ).x
        assert corner is not None
        assert loss @ (kernel @ corner) <= loss @ w + 1e-7
    even = np.full(POINTS, n / kernel.sum())
    if tau == 1.0:
        assert abs(gap(kernel @ even)) <= tau
        assert loss @ (kernel @ even) < loss @ w


def test_an_impossible_program_is_none() -> None:
    sums = total(biased(2, [50]))
    assert worst_weights(sums, 50, 50, 1e-3) is not None
    far = replace(sums, kernel=sums.kernel * 1e-6)
    assert worst_weights(far, 50, 50, 10.0) is None


@pytest.mark.parametrize("penalty", ["squares", "covariance"])
def test_the_theta_step_descends_the_printed_objective(penalty: Penalty) -> None:
    federation = biased(3, [12, 30, 21])
    alpha = np.random.default_rng(1).random(POINTS)
    parts = game(federation)
    kernel = np.concatenate([np.asarray(part.kernel) for part in parts.parts])
    w, s = kernel @ alpha, (federation.s == 0) * 1.0
    sbar = np.mean(w * s)
    weighting = Weighting(jnp.asarray(0.0), jnp.asarray(alpha), jnp.asarray(sbar))

    def objective(theta: Floats) -> float:
        u = theta[0] + federation.x @ theta[1:]
        loss = np.logaddexp(0, np.where(federation.y == 1, -u, u))
        terms = (w * s - sbar) * u
        extra = np.mean(terms**2) if penalty == "squares" else np.mean(terms) ** 2
        return float(np.mean(w * loss) + 2 * extra)

    model = logistic_regression(3)
    grad, loss, gap = parts.gradient(model, penalty, jnp.asarray(THETA), weighting)
    h = 1e-6
    for k in range(4):
        step = h * np.eye(4)[k]
        slope = (objective(THETA + step) - objective(THETA - step)) / (2 * h)
        assert float(grad[k]) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    u, row_loss, _ = naive_rows(federation)
    assert loss == pytest.approx(row_loss.mean())
    assert gap == pytest.approx(np.mean((w * s - sbar) * u))
    one = theta_sums(model, penalty, parts.parts[0], jnp.asarray(THETA), weighting)
    assert one.penalty_grad.shape == (4,)


def test_rows_of_other_groups_have_no_part_in_the_covariance() -> None:
    federation = biased(4, [40, 50], groups=3)
    rest = federation.s == 2
    moved = replace(federation, x=federation.x + 5.0 * rest[:, None])
    for one in (federation, moved):
        parts = game(one)
        assert parts.paired == np.sum(~rest)
        sums = parts.gradient(
            logistic_regression(3), "covariance", jnp.asarray(THETA), parts.even()
        )
        u, _, s = naive_rows(federation)
        want = np.mean((s - s[~rest].mean())[~rest] * u[~rest])
        assert sums[2] == pytest.approx(want)


def test_reference_points_come_from_sums_and_follow_the_columns() -> None:
    rng = np.random.default_rng(2)
    x = np.stack([rng.normal(3, 2, 500), rng.random(500) < 0.2, np.zeros(500)], axis=1)
    parts = ColumnSums.of(x[:100]) + ColumnSums.of(x[100:])
    z = parts.draw(4000, seed=1)
    np.testing.assert_allclose(z, ColumnSums.of(x).draw(4000, seed=1), atol=1e-9)
    assert set(z[:, 1]) == {0.0, 1.0}
    assert z[:, 1].mean() == pytest.approx(x[:, 1].mean(), abs=0.03)
    assert z[:, 0].mean() == pytest.approx(x[:, 0].mean(), abs=0.1)
    assert z[:, 0].std() == pytest.approx(x[:, 0].std(), abs=0.1)
    assert not z[:, 2].any()
    assert not np.isin(z[:, 0], x[:, 0]).any()


def test_the_adversary_does_not_see_the_group_columns() -> None:
    federation = biased(5, [40])
    blind = replace(task(federation), group_columns=(1,))
    changed = federation.x.copy()
    changed[:, 1] = 7
    other = replace(blind, federation=replace(federation, x=changed))
    np.testing.assert_array_equal(
        _Game.of(blind, PAIR).parts[0].kernel, _Game.of(other, PAIR).parts[0].kernel
    )
    seeing = replace(blind, group_columns=())
    assert (
        np.asarray(_Game.of(seeing, PAIR).parts[0].kernel)
        != np.asarray(_Game.of(blind, PAIR).parts[0].kernel)
    ).any()


@pytest.mark.slow
def test_client_by_client_and_pooled_train_the_same_model() -> None:
    federation = biased(6, [30, 45])
    apart = af(task(federation, engine="clientwise", epsilon=0.05), outer=4)
    together = af(task(federation, epsilon=0.05), outer=4)
    np.testing.assert_allclose(apart.outcome.theta, together.outcome.theta, atol=1e-9)


@pytest.mark.slow
def test_rounds_are_queries_and_the_history_shows_the_covariance() -> None:
    seen: list[int] = []
    trained = af(task(biased(7, [60, 60]), epsilon=0.05), lambda k, _: seen.append(k), outer=3)
    outcome = trained.outcome
    assert outcome.rounds == 3 * 10 + 2 == len(outcome.history.loss) == len(seen)
    assert outcome.status is Status.RUNNING
    assert outcome.history.d.shape == outcome.history.mu.shape == (32, 1)
    assert float(outcome.history.loss[0]) == pytest.approx(np.log(2))
    assert outcome.history.step[10] == outcome.history.step[21] == 0
    np.testing.assert_allclose(
        outcome.history.violation, np.maximum(np.abs(outcome.history.d[:, 0]) - 0.05, 0)
    )
    first = fedavg(task(biased(7, [60, 60])))
    assert float(outcome.last.loss) > float(first.outcome.last.loss)
    theta_up, alpha_up = 2 + 2 * 4, 2 + 4 * POINTS
    assert trained.numbers_up == -(-(30 * theta_up + 2 * alpha_up) // 32)


def test_infeasible_programs_are_counted() -> None:
    federation = biased(8, [60])
    far = replace(federation, x=federation.x * 30)
    trained = af(task(far, epsilon=0.0), outer=4)
    assert "of 3 alpha steps no weights met tau = 0" in trained.notes[0]
    assert np.isfinite(trained.outcome.theta).all()


def test_networks_many_classes_and_pairs_are_refused() -> None:
    federation = biased(9, [30], groups=3)
    with pytest.raises(FairSiloError, match="not for the model 'mlp'"):
        af(task(federation, model=mlp(3)))
    with pytest.raises(FairSiloError, match="two classes"):
        af(task(replace(federation, classes=3)))
    with pytest.raises(FairSiloError, match="there are 2 pairs"):
        af(task(federation, pairs=(PAIR, Dgeo(0, 2, 1))))
