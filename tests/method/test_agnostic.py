"""AF: the silos' sums against naive formulas, and the linear program against its bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.optimize import linprog

from fairsilo.arrays import Floats
from fairsilo.compute import Array, jax, jnp
from fairsilo.engine import silos_of
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo
from fairsilo.method.af import ALPHA_MAX, ROUNDS, STEPS, _Game, af, covariance_row, worst_weights
from fairsilo.method.fedavg import fedavg
from fairsilo.model import mlp
from fairsilo.partition.federation import Federation
from fairsilo.question.agnostic import (
    POINTS,
    SIGMA,
    Attack,
    AttackSums,
    ColumnSums,
    Spread,
    Tilt,
    TiltSums,
)
from fairsilo.solver import Status
from tests.method.tasks import PAIR, biased, posed, problem_of

THETA = np.array([-0.4, 0.8, -0.3, 1.1])
"""Bias first."""


def rounds_of(outer: int) -> int:
    """As many rounds as so many theta steps, and the alpha steps between them, ask for."""
    return outer * (STEPS + 1) - 1


def naive_rows(federation: Federation) -> tuple[Floats, Floats, Floats]:
    """u_j, l_j and s_j (1 in group 0), one row at a time."""
    u = np.array([THETA[0] + THETA[1:] @ x for x in federation.x])
    loss = np.array(
        [np.log(1 + np.exp(-v if y == 1 else v)) for v, y in zip(u, federation.y, strict=True)]
    )
    return u, loss, (federation.s == 0) * 1.0


def game(federation: Federation, engine: str = "clientwise") -> _Game:
    return _Game(*posed(federation, engine=engine))


def naive_kernel(federation: Federation, points: Floats) -> Floats:
    """exp(-|x_j - z_r|^2 / (2 sigma^2)), one pair at a time."""
    z = points.reshape(POINTS, -1)
    squares = [[np.sum((x - one) ** 2) for one in z] for x in federation.x]
    kernel: Floats = np.exp(-np.array(squares) / (2 * SIGMA**2))
    return kernel


def total(federation: Federation) -> tuple[AttackSums, Floats]:
    """The sum of the silos' answers, and the kernel of all rows."""
    one = game(federation)
    asked = Attack(THETA, one.points)
    vectors = [asked.answer(one.problem, silo) for silo in silos_of(federation)]
    return asked.read(one.problem, reduce(add, vectors)), naive_kernel(federation, one.points)


def test_client_sums_add_up_to_the_pooled_formulas() -> None:
    federation = biased(0, [9, 23, 14])
    u, loss, s = naive_rows(federation)
    got, kernel = total(federation)
    np.testing.assert_allclose(got.kernel, sum(kernel), rtol=1e-12)
    np.testing.assert_allclose(got.loss_kernel, sum(loss[:, None] * kernel), rtol=1e-12)
    np.testing.assert_allclose(got.group_kernel, sum(s[:, None] * kernel), rtol=1e-12)
    np.testing.assert_allclose(
        got.group_score_kernel, sum((s * u)[:, None] * kernel), rtol=1e-10, atol=1e-12
    )
    assert float(got.loss) == pytest.approx(loss.sum())
    assert float(got.score) == pytest.approx(u.sum())


def test_the_kernel_is_gaussian() -> None:
    """Rows 0 and 5 away from the points: sum_j K_jr is 1 + exp(-25 / 8)."""
    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    s, y = np.array([0, 1]), np.array([1, 1])
    federation = Federation.of(x, y, s, np.zeros(2, np.int64), groups=2, classes=2)
    asked, (silo,) = Attack(np.zeros(3), np.zeros(2 * POINTS)), silos_of(federation)
    got = asked.read(problem_of(federation), asked.answer(problem_of(federation), silo))
    np.testing.assert_allclose(got.kernel, 1 + np.exp(-25 / 8))
    np.testing.assert_allclose(got.group_kernel, 1.0)
    np.testing.assert_allclose(got.loss_kernel, np.log(2) * (1 + np.exp(-25 / 8)))


@pytest.mark.parametrize("tau", [0.01, 0.05, 1.0])
def test_the_program_keeps_its_constraints_and_beats_other_weights(tau: float) -> None:
    federation = biased(1, [60, 80, 70])
    n = federation.rows
    sums, kernel = total(federation)
    alpha = worst_weights(sums, n, n, tau)
    assert alpha is not None
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
    sums, _ = total(biased(2, [50]))
    assert worst_weights(sums, 50, 50, 1e-3) is not None
    far = replace(sums, kernel=sums.kernel * 1e-6)
    assert worst_weights(far, 50, 50, 10.0) is None


def test_the_theta_step_descends_the_printed_objective() -> None:
    federation = biased(3, [12, 30, 21])
    alpha = np.random.default_rng(1).random(POINTS)
    silos = game(federation)
    kernel = naive_kernel(federation, silos.points)
    w, s = kernel @ alpha, (federation.s == 0) * 1.0
    sbar = np.mean(w * s)
    weighting = np.concatenate([[0.0], alpha, [sbar]])

    def objective(theta: Floats) -> float:
        u = theta[0] + federation.x @ theta[1:]
        loss = np.logaddexp(0, np.where(federation.y == 1, -u, u))
        extra = np.mean(((w * s - sbar) * u) ** 2)
        return float(np.mean(w * loss) + 2 * extra)

    grad, loss, gap = silos.gradient(THETA, weighting)
    h = 1e-6
    for k in range(4):
        step = h * np.eye(4)[k]
        slope = (objective(THETA + step) - objective(THETA - step)) / (2 * h)
        assert float(grad[k]) == pytest.approx(slope, rel=1e-5, abs=1e-7)
    u, row_loss, _ = naive_rows(federation)
    assert loss == pytest.approx(row_loss.mean())
    assert gap == pytest.approx(np.mean((w * s - sbar) * u))


def test_the_sums_of_a_theta_step_are_what_jax_differentiates() -> None:
    """With a third group, whose rows weigh in the loss alone, and weights that begin at 0.7."""
    federation = biased(3, [12, 30, 21], groups=3)
    silos = game(federation)
    alpha, start, sbar = np.random.default_rng(1).random(POINTS), 0.7, 0.4
    w = jnp.asarray(start + naive_kernel(federation, silos.points) @ alpha)
    in_a, paired = jnp.asarray(federation.s == 0), jnp.asarray(federation.s < 2)
    x, sign = jnp.asarray(federation.x), jnp.where(jnp.asarray(federation.y) == 1, -1.0, 1.0)

    def weighted_loss(theta: Array) -> Array:
        return jnp.sum(w * jnp.logaddexp(0.0, sign * (theta[0] + x @ theta[1:])))

    def penalty(theta: Array) -> Array:
        return jnp.sum((paired * (w * in_a - sbar) * (theta[0] + x @ theta[1:])) ** 2)

    asked = Tilt(THETA, silos.points, np.concatenate([[start], alpha, [sbar]]))
    got: TiltSums = silos.engine.ask(silos.problem, asked)
    assert got.penalty_grad.shape == (4,)
    at = jnp.asarray(THETA)
    np.testing.assert_allclose(got.grad, jax.jit(jax.grad(weighted_loss))(at), rtol=1e-10)
    np.testing.assert_allclose(got.penalty_grad, jax.jit(jax.grad(penalty))(at), rtol=1e-10)


def test_rows_of_other_groups_have_no_part_in_the_covariance() -> None:
    federation = biased(4, [40, 50], groups=3)
    rest = federation.s == 2
    moved = replace(federation, x=federation.x + 5.0 * rest[:, None])
    for one in (federation, moved):
        silos = game(one)
        assert silos._counts() == (90, np.sum(~rest), np.sum(federation.s == 0))
        gap = silos.gradient(THETA, silos.even())[2]
        u, _, s = naive_rows(federation)
        want = np.mean((s - s[~rest].mean())[~rest] * u[~rest])
        assert gap == pytest.approx(want)


def test_reference_points_come_from_sums_and_follow_the_columns() -> None:
    rng = np.random.default_rng(2)
    x = np.stack([rng.normal(3, 2, 500), rng.random(500) < 0.2, np.zeros(500)], axis=1)
    groups = np.arange(500) % 2
    federation = Federation.of(
        x, groups, groups, np.repeat([0, 1], [100, 400]), groups=2, classes=2
    )
    problem, silos = posed(federation, engine="clientwise")
    z = silos.ask(problem, Spread()).draw(4000, seed=1)
    by_hand = ColumnSums(500, x.sum(0), (x**2).sum(0), (x**2 * (1 - x) ** 2).sum(0))
    np.testing.assert_allclose(z, by_hand.draw(4000, seed=1), atol=1e-9)
    assert set(z[:, 1]) == {0.0, 1.0}
    assert z[:, 1].mean() == pytest.approx(x[:, 1].mean(), abs=0.03)
    assert z[:, 0].mean() == pytest.approx(x[:, 0].mean(), abs=0.1)
    assert z[:, 0].std() == pytest.approx(x[:, 0].std(), abs=0.1)
    assert not z[:, 2].any()
    assert not np.isin(z[:, 0], x[:, 0]).any()


def test_the_adversary_does_not_see_the_group_columns() -> None:
    """At theta = 0, where no score depends on x, its coefficients are of the kernel alone."""
    federation = biased(5, [40])
    changed = federation.x.copy()
    changed[:, 1] = 7
    other = replace(federation, x=changed)

    def coefficients(rows: Federation, hidden: tuple[int, ...]) -> tuple[Floats, Floats]:
        one = _Game(*posed(rows, hidden=hidden))
        sums = one.engine.ask(one.problem, Attack(np.zeros(4), one.points))
        return one.points, np.concatenate([sums.kernel, sums.loss_kernel, sums.group_kernel])

    for ours, theirs in zip(coefficients(federation, (1,)), coefficients(other, (1,)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (coefficients(federation, ())[1] != coefficients(federation, (1,))[1]).any()
    assert (coefficients(federation, ())[1] != coefficients(other, ())[1]).any()


@pytest.mark.slow
def test_client_by_client_and_pooled_train_the_same_model() -> None:
    federation = biased(6, [30, 45])
    apart, together = (
        af(*posed(federation, engine=engine, epsilon=0.05, rounds=rounds_of(4)))
        for engine in ("clientwise", "pooled")
    )
    assert apart.outcome.rounds == together.outcome.rounds == rounds_of(4)
    np.testing.assert_allclose(apart.outcome.theta, together.outcome.theta, atol=1e-9)


@pytest.mark.slow
def test_rounds_are_queries_and_the_history_shows_the_covariance() -> None:
    seen: list[int] = []
    problem, engine = posed(biased(7, [60, 60]), epsilon=0.05, rounds=rounds_of(3))
    trained = af(problem, engine, lambda k, _: seen.append(k))
    outcome = trained.outcome
    assert outcome.rounds == 3 * 10 + 2 == len(outcome.history.loss) == len(seen)
    assert outcome.status is Status.RUNNING
    assert outcome.history.d.shape == outcome.history.mu.shape == (32, 1)
    assert float(outcome.history.loss[0]) == pytest.approx(np.log(2))
    assert outcome.history.step[10] == outcome.history.step[21] == 0
    np.testing.assert_allclose(
        outcome.history.violation, np.maximum(np.abs(outcome.history.d[:, 0]) - 0.05, 0)
    )
    first = fedavg(*posed(biased(7, [60, 60])))
    assert float(outcome.last.loss) > float(first.outcome.last.loss)
    theta_up, alpha_up = 2 + 2 * 4, 2 + 4 * POINTS
    assert trained.numbers_up == -(-(30 * theta_up + 2 * alpha_up) // 32)


def test_the_schedule_ends_after_twenty_theta_steps_and_has_at_least_one() -> None:
    assert rounds_of(20) == ROUNDS
    for rounds, taken in ((1, 10), (ROUNDS + 50, ROUNDS)):
        problem, engine = posed(biased(7, [60]), epsilon=0.05, rounds=rounds)
        assert af(problem, engine).outcome.rounds == taken


def test_infeasible_programs_are_counted() -> None:
    federation = biased(8, [60])
    far = replace(federation, x=federation.x * 30)
    trained = af(*posed(far, epsilon=0.0, rounds=rounds_of(4)))
    assert "of 3 alpha steps no weights met tau = 0" in trained.notes[0]
    assert np.isfinite(trained.outcome.theta).all()


def test_networks_many_classes_and_pairs_are_refused() -> None:
    federation = biased(9, [30], groups=3)
    with pytest.raises(FairSiloError, match="for the model lr and not for 'mlp'"):
        af(*posed(federation, model=mlp(3)))
    with pytest.raises(FairSiloError, match="two classes"):
        af(*posed(replace(federation, classes=3)))
    with pytest.raises(FairSiloError, match="there are 2 pairs"):
        af(*posed(federation, pairs=(PAIR, Dgeo(0, 2, 1))))
