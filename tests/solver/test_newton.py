"""Many constraints, failures with networks, and the status that a solver reports."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from fairsilo.compute import jnp
from fairsilo.engine.loop import drive
from fairsilo.fairness import Dgeo
from fairsilo.model import logistic_regression
from fairsilo.numerics import solve_bent
from fairsilo.partition.federation import Federation
from fairsilo.solver import Agp, Lbfgs, Newton, Order, Query, Status, Sums
from fairsilo.solver.base import kkt_residual
from fairsilo.sums import Compiled
from tests.engine.sums import compiled_sums, weighted_rows
from tests.tables import make


def three_groups(classes: int) -> tuple[Federation, list[Dgeo]]:
    rng = np.random.default_rng(7)
    n = 1200
    s = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 3)) + 0.4 * s[:, None]
    scores = x @ rng.normal(size=(3, classes)) + 0.5 * s[:, None] * np.arange(classes)
    y = np.array([rng.choice(classes, p=np.exp(log_softmax(row))) for row in scores])
    federation = Federation.of(x, y, s, rng.integers(0, 4, n), groups=3, classes=classes)
    pairs = [
        Dgeo(a, b, c) for a, b in itertools.combinations(range(3), 2) for c in range(1, classes)
    ]
    return federation, pairs


@pytest.mark.parametrize(
    ("d", "mu", "residual"),
    [
        (0.02, 0.046, 0.0),  # at the limit
        (-0.02, -0.046, 0.0),
        (0.0022, 0.046, 0.0178),  # inside: the review's point, whose product is 8e-4
        (0.0022, 0.001, 0.001),
        (-0.02, 0.046, 0.04),  # the multiplier is the other side's
        (0.0, 0.0, 0.0),
    ],
)
def test_a_multiplier_with_a_slack_is_no_optimum(d: float, mu: float, residual: float) -> None:
    one = np.array([1.0])
    found = kkt_residual(0 * one, d * one, mu * one, 0.02 * one)
    assert found == pytest.approx(residual)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", [Newton(), Lbfgs(tolerance=1e-6)])
def test_three_groups_and_classes_against_slsqp(classes: int, solver: Newton | Lbfgs) -> None:
    federation, pairs = three_groups(classes)
    rows = weighted_rows(federation, pairs)
    w, v = np.asarray(rows.w), np.asarray(rows.v)
    model = logistic_regression(3, classes)
    epsilon = np.full(len(pairs), 0.02)
    got = Compiled(model, rows).solve(
        solver, model.start(0), epsilon, 20 if solver.name == "newton" else 200
    )
    assert got.status is Status.CONVERGED
    assert np.all(np.abs(got.last.d) <= 0.02 + 1e-5)

    size = (3 + 1) * (classes if classes > 2 else 1)

    def losses(theta: np.ndarray) -> np.ndarray:
        weights = theta.reshape(4, -1)
        scores = federation.x @ weights[:3] + weights[3]
        if classes == 2:
            scores = np.hstack([np.zeros_like(scores), scores])
        result: np.ndarray = -log_softmax(scores, axis=1)[np.arange(len(scores)), federation.y]
        return result

    best = minimize(
        lambda t: w @ losses(t),
        np.zeros(size),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda t, k=k: epsilon - k * (v @ losses(t))} for k in (1, -1)
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert float(got.last.loss) == pytest.approx(best.fun, abs=1e-4)


@pytest.mark.slow
def test_no_constraint_at_all_is_plain_training() -> None:
    rows = weighted_rows(make(1, [40, 30], 3).federation, [])
    model = logistic_regression(3)
    for solver in (Newton(), Lbfgs(), Agp()):
        got = Compiled(model, rows).solve(solver, model.start(0), [], 20_000)
        assert got.status is Status.CONVERGED
        query = Query(jnp.asarray(got.theta), jnp.zeros(0))
        answer = compiled_sums(model, Order.FIRST, rows, query)
        assert float(jnp.abs(answer.grad).max()) < 1e-4


@pytest.mark.slow
def test_divergence_is_named() -> None:
    table = make(2, [10, 10], 2).federation
    rows = weighted_rows(replace(table, x=table.x * np.inf), [])
    model = logistic_regression(2)
    for solver in (Newton(), Lbfgs(), Agp()):
        got = Compiled(model, rows).solve(solver, model.start(0), [], 50)
        assert got.status is Status.DIVERGED
        assert got.rounds == 1


@pytest.mark.slow
def test_a_round_limit_is_not_convergence() -> None:
    rows = weighted_rows(make(3, [30, 30], 3).federation, [Dgeo(0, 1, 1)])
    model = logistic_regression(3)
    for solver in (Newton(), Lbfgs(), Agp()):
        got = Compiled(model, rows).solve(solver, model.start(0), [0.01], 2)
        assert got.status is Status.RUNNING
        assert got.rounds == 2
        assert float(got.last.residual) > solver.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("lowest", [0.5, 0.0, -1e-12, -0.3])
def test_bent_matrices_are_solved_as_by_their_eigenvalues(lowest: float) -> None:
    """By Cholesky's factors where the matrix is positive, and by eigenvectors where it is not."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    values = np.array([lowest, 0.7, 1.0, 1.5, 2.0, 9.0])
    matrix, right = turn @ np.diag(values) @ turn.T, rng.normal(size=(6, 2))
    for damping in (0.0, 0.1):
        bent = np.abs(values) + (damping + 1e-6) * 9.0
        want = turn @ ((turn.T @ right) / bent[:, None])
        asked = ((matrix + matrix.T) / 2, damping, 1e-6, right)
        for array in (np.asarray, jnp.asarray):
            np.testing.assert_allclose(solve_bent(*map(array, asked)), want, rtol=1e-4)


@pytest.mark.slow
def test_the_damping_is_that_of_the_matrix_with_an_output_per_class() -> None:
    """The same number for every class is in the null space of such a Hessian."""
    matrix = np.kron(np.eye(2), np.eye(4) - 0.25)
    right = np.random.default_rng(0).normal(size=(8, 1))
    for damping in (0.1, 10.0):
        want = np.linalg.solve(matrix + (damping + 1e-9) * np.eye(8), right)
        found = solve_bent(*map(jnp.asarray, (matrix, damping, 1e-9, right)))
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(("kind", "start"), [(Newton, 30.0), (Lbfgs, 300.0)])
def test_trials_stay_within_reach(kind: type[Newton | Lbfgs], start: float, bounded: bool) -> None:
    """From a saturated point, where there is next to no curvature, to the optimum log(3)."""
    asked: list[float] = []

    def answer(query: Query, order: Order) -> Sums:
        (theta,) = query.theta
        asked.append(float(theta))
        p = float(expit(theta))
        loss = np.logaddexp(0, theta) - 0.75 * theta
        hess = np.array([[p * (1 - p)]])
        return Sums(loss, np.zeros(0), np.array([p - 0.75]), np.zeros((0, 1)), hess)

    solver = kind() if bounded else kind(reach=np.inf)
    outcome = drive(solver, answer, [start], np.zeros(0), 60)
    assert outcome.status is Status.CONVERGED
    assert outcome.theta[0] == pytest.approx(np.log(3), abs=1e-4)
    farthest = max(abs(one - start) for one in asked)
    assert (farthest <= kind().reach * (1 + start) + 1e-9) is bounded
    assert farthest > 100
