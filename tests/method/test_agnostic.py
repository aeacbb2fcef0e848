"""AF: the silos' sums against naive formulas, the worst weights against other solvers."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from fairsilo.arrays import Floats
from fairsilo.compute import Array, jax, jnp
from fairsilo.engine import silos_of
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo
from fairsilo.method.af import (
    ALPHA_MAX,
    PRICE,
    ROUNDS,
    STEEP,
    _Game,
    af,
    covariances,
    price,
    worst_weights,
)
from fairsilo.model import mlp
from fairsilo.partition.federation import Federation
from fairsilo.question.agnostic import (
    POINTS,
    SIGMA,
    Attack,
    AttackSums,
    ColumnSums,
    Spread,
)
from fairsilo.solver import Order, Query, Status
from tests.method.tasks import PAIR, biased, posed, problem_of

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


def test_the_gradients_are_what_jax_differentiates() -> None:
    """With a third group, whose rows weigh in the loss alone."""
    federation = biased(3, [12, 30, 21], groups=3)
    got, kernel = total(federation)
    in_a, paired = jnp.asarray(federation.s == 0), jnp.asarray(federation.s < 2)
    x, sign = jnp.asarray(federation.x), jnp.where(jnp.asarray(federation.y) == 1, -1.0, 1.0)

    def sums(theta: Array) -> tuple[Array, Array, Array]:
        u = theta[0] + x @ theta[1:]
        return jnp.logaddexp(0.0, sign * u) @ kernel, (in_a * u) @ kernel, paired @ u

    wanted = jax.jit(jax.jacobian(sums))(jnp.asarray(THETA))
    found = (got.loss_grads, got.group_score_grads, got.score_grad)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_weights_are_worse(seed: int) -> None:
    """Against a general solver of the same program, and the linear program without a price."""
    rng = np.random.default_rng(seed)
    gain, kernel = rng.normal(size=POINTS) * 0.01, rng.uniform(0.02, 0.4, POINTS)
    alpha = worst_weights(gain, kernel)
    assert kernel @ alpha == pytest.approx(1, abs=1e-9)
    assert ((alpha >= 0) & (alpha <= ALPHA_MAX)).all()
    found = gain @ alpha - price(alpha)
    other = minimize(
        lambda a: price(a) - gain @ a,
        np.full(POINTS, 1 / kernel.sum()),
        jac=lambda a: STEEP * a - gain,
        bounds=[(0, ALPHA_MAX)] * POINTS,
        constraints={"type": "eq", "fun": lambda a: kernel @ a - 1, "jac": lambda _: kernel},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found >= -other.fun - 1e-9
    free = linprog(-gain, A_eq=kernel[None], b_eq=[1.0], bounds=(0, ALPHA_MAX))
    assert gain @ alpha <= -free.fun + 1e-12
    assert gain @ alpha >= -free.fun - PRICE / 2


@pytest.mark.parametrize("tiny", [0.0, 1e-300, 1e-13, 1e-9])
def test_a_kernel_that_reaches_nobody_changes_nothing(tiny: float) -> None:
    rng = np.random.default_rng(4)
    gain, kernel = rng.normal(size=POINTS) * 0.01, rng.uniform(0.02, 0.4, POINTS)
    kernel[0] = tiny
    alpha = worst_weights(gain, kernel)
    assert kernel @ alpha == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(alpha[1:], worst_weights(gain[1:], kernel[1:]), atol=1e-6)


def test_weights_that_are_not_one_on_average_are_refused() -> None:
    kernel = np.linspace(0.1, 0.3, POINTS)
    with pytest.raises(FairSiloError, match="one on average"):
        worst_weights(1e17 * np.cos(np.arange(POINTS)), kernel)


def test_tables_that_no_kernel_reaches_are_refused() -> None:
    federation = biased(8, [60])
    far = replace(federation, x=federation.x * 30)
    with pytest.raises(FairSiloError, match="reach too few rows"):
        af(*posed(far, epsilon=0.1))


def naive_worst(federation: Federation, theta: Floats, points: Floats) -> tuple[float, Floats]:
    """Loss and covariances under the worst weights, from rows and their weights."""
    kernel, n = naive_kernel(federation, points), federation.rows
    u = theta[0] + federation.x @ theta[1:]
    loss = np.logaddexp(0, np.where(federation.y == 1, -u, u))
    s = (federation.s == 0) * 1.0

    def covariance(alpha: Floats) -> float:
        w = kernel @ alpha
        return float(np.mean((w * s - np.mean(w * s)) * u))

    row = np.array([covariance(one) for one in np.eye(POINTS)])
    mean = kernel.mean(axis=0)
    worst = worst_weights(loss @ kernel / n, mean)
    high, low = worst_weights(row, mean), worst_weights(-row, mean)
    value = float(np.mean(kernel @ worst * loss)) - price(worst)
    cheapest = worst_weights(np.zeros(POINTS), mean)
    over = price(high) - price(cheapest), price(low) - price(cheapest)
    return value, np.array([covariance(high) - over[0], covariance(low) + over[1]])


def test_theta_zero_keeps_to_every_tau() -> None:
    silos = game(biased(3, [12, 30, 21]))
    silos.silos = silos.engine.clients
    found = silos.answer(Query(np.zeros(4), np.zeros(2)), Order.FIRST)
    np.testing.assert_allclose(found.d, 0, atol=1e-12)


def test_the_objective_and_its_gradients_are_the_printed_ones() -> None:
    federation = biased(3, [12, 30, 21])
    silos = game(federation)
    silos.silos = silos.engine.clients
    got = silos.answer(Query(THETA, np.zeros(2)), Order.FIRST)
    loss, d = naive_worst(federation, THETA, silos.points)
    assert float(got.loss) == pytest.approx(loss)
    np.testing.assert_allclose(got.d, d, atol=1e-12)
    assert got.jac is not None
    h = 1e-6
    for k, step in enumerate(h * np.eye(4)):
        up, down = (naive_worst(federation, THETA + sign * step, silos.points) for sign in (1, -1))
        assert float(got.grad[k]) == pytest.approx((up[0] - down[0]) / (2 * h), abs=1e-6)
        np.testing.assert_allclose(got.jac[:, k], (up[1] - down[1]) / (2 * h), atol=1e-6)


def test_rows_of_other_groups_have_no_part_in_the_covariance() -> None:
    federation = biased(4, [40, 50], groups=3)
    rest = federation.s == 2
    moved = replace(federation, x=federation.x + 5.0 * rest[:, None])
    points = game(federation).points
    found = []
    for one in (federation, moved):
        asked = Attack(THETA, points)
        vectors = [asked.answer(problem_of(one), silo) for silo in silos_of(one)]
        sums = asked.read(problem_of(one), reduce(add, vectors))
        found.append(covariances(sums, int((~rest).sum())))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


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


def test_the_optimum_is_the_same_from_anywhere_and_keeps_to_tau() -> None:
    """Engines add in another order and other starts take another way: the end is the same."""
    federation = biased(6, [60, 90])
    ended = []
    for engine, start in (("clientwise", 0.0), ("pooled", 0.0), ("pooled", 1.0)):
        problem, silos = posed(federation, engine=engine, epsilon=0.05, rounds=ROUNDS)
        moved = replace(problem, model=problem.model.starting_at(np.full(4, start)))
        outcome = af(moved, silos).outcome
        assert outcome.status is Status.CONVERGED
        assert abs(outcome.last.d[0]) == pytest.approx(0.05, abs=1e-4)
        ended.append(outcome)
    for one in ended[1:]:
        assert float(one.last.loss) == pytest.approx(float(ended[0].last.loss), abs=1e-7)
        np.testing.assert_allclose(one.theta, ended[0].theta, atol=1e-3)


def test_tau_trades_loss_for_covariance() -> None:
    federation = biased(7, [80, 80])
    ended = [af(*posed(federation, epsilon=tau, rounds=ROUNDS)) for tau in (0.02, 0.1, 9.0)]
    losses = [float(one.outcome.last.loss) for one in ended]
    found = [float(abs(one.outcome.last.d[0])) for one in ended]
    assert losses[0] > losses[1] + 1e-3 > losses[2] + 2e-3
    assert found[0] < found[1] < found[2] < 9.0
    assert ended[2].outcome.last.mu == 0
    outcome, (plain,) = ended[0].outcome, ended[0].predictors
    assert outcome.history.d.shape == outcome.history.mu.shape == (outcome.rounds, 1)
    np.testing.assert_array_equal(plain.theta, outcome.theta)  # type: ignore[attr-defined]
    assert ended[0].numbers_up == 4 * POINTS + 2 + (2 * POINTS + 1) * 4


def test_networks_many_classes_and_pairs_are_refused() -> None:
    federation = biased(9, [30], groups=3)
    with pytest.raises(FairSiloError, match="for the model lr and not for 'mlp'"):
        af(*posed(federation, model=mlp(3)))
    with pytest.raises(FairSiloError, match="two classes"):
        af(*posed(replace(federation, classes=3)))
    with pytest.raises(FairSiloError, match="there are 2 pairs"):
        af(*posed(federation, pairs=(PAIR, Dgeo(0, 2, 1))))
