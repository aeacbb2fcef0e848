"""A penalty is part of the objective: the optimum is SciPy's, and AIC's choice is AIC's lowest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from fairsilo.compute import jnp
from fairsilo.engine.loop import drive
from fairsilo.method.fedavg import unconstrained
from fairsilo.method.lco import lco
from fairsilo.model import mlp
from fairsilo.question import Problem
from fairsilo.solver import Agp, Lbfgs, Newton, Status, Sums
from fairsilo.solver.penalty import Penalty, Term, added
from fairsilo.solver.strengths import Choosing, Quadratic
from tests.method.tasks import biased, posed

SIZES = [80, 120, 60]


def with_ridge(problem: Problem, strength: float, rows: int) -> Problem:
    places = problem.model.weights
    term = Term("weights", places, np.ones(len(places)))
    return replace(problem, penalty=Penalty((term,), (strength,), rows, problem.model.size))


def objective(theta: np.ndarray, x: np.ndarray, y: np.ndarray, strength: float) -> float:
    """The mean loss and the penalty, written out; the bias comes first."""
    scores = theta[0] + x @ theta[1:]
    losses = np.logaddexp(0, np.where(y == 1, -scores, scores))
    return float(losses.mean() + strength * theta[1:] @ theta[1:] / 2 / len(y))


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
@pytest.mark.parametrize("strength", [0.5, 40.0])
def test_the_constrained_optimum_is_scipys(engine: str, strength: float) -> None:
    rows = biased(0, SIZES)
    problem, at = posed(rows, engine=engine, estimator="pooled", solver=Newton(tolerance=1e-10))
    found = at.solve(with_ridge(problem, strength, rows.rows))
    x, y, s = np.asarray(rows.x), rows.y, rows.s
    a, b = (s == 0) & (y == 1), (s == 1) & (y == 1)

    def gap(theta: np.ndarray) -> float:
        losses = np.logaddexp(0, -(theta[0] + x @ theta[1:]))
        return float(losses[a].mean() - losses[b].mean())

    limits = [{"type": "ineq", "fun": lambda t, k=k: 0.02 - k * gap(t)} for k in (1, -1)]
    best = minimize(
        objective, np.zeros(4), args=(x, y, strength), method="SLSQP", constraints=limits,
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert found.status is Status.CONVERGED
    assert objective(found.theta, x, y, strength) == pytest.approx(best.fun, abs=1e-8)
    assert abs(gap(found.theta)) <= 0.02 + 1e-8
    assert float(found.last.loss) == pytest.approx(best.fun, abs=1e-8)


@pytest.mark.parametrize("solver", [Newton(1e-9), Lbfgs(tolerance=1e-7), Agp(alpha=0.5)])
def test_every_solver_ends_at_the_penalised_optimum(solver: Newton | Lbfgs | Agp) -> None:
    rows = biased(1, SIZES)
    problem, engine = posed(rows, solver=solver, rounds=4000)
    found = engine.solve(with_ridge(unconstrained(problem), 10.0, rows.rows))
    x, y = np.asarray(rows.x), rows.y
    best = minimize(objective, np.zeros(4), args=(x, y, 10.0), tol=1e-12)
    assert objective(found.theta, x, y, 10.0) == pytest.approx(best.fun, abs=1e-8)


@pytest.mark.slow
def test_a_network_and_lco_are_penalised_alike_by_every_engine() -> None:
    rows = biased(2, SIZES)
    for model, method in ((mlp(3), None), (None, lco)):
        ends = []
        for engine in ("pooled", "clientwise"):
            problem, at = posed(rows, engine=engine, model=model, epsilon=0.1)
            problem = with_ridge(problem, 5.0, rows.rows)
            trained = method(problem, at).outcome if method else at.solve(problem)
            ends.append(trained)
        assert ends[0].theta == pytest.approx(ends[1].theta, abs=1e-4)
        places = ends[0].theta[problem.model.weights]
        free = posed(rows, model=model, epsilon=0.1)
        without = (method(*free).outcome if method else free[1].solve(free[0])).theta
        assert np.abs(places).sum() < np.abs(without[problem.model.weights]).sum()


def test_added_is_the_quadratic_form() -> None:
    rng = np.random.default_rng(0)
    theta, matrix = rng.normal(size=4), rng.normal(size=(2, 2))
    terms = (Term("a", np.array([1, 3]), matrix @ matrix.T), Term("b", np.array([2]), np.ones(1)))
    penalty = Penalty(terms, (2.0, 3.0), 10.0, 4, slight=0.5)
    p = np.zeros((4, 4))
    p[np.ix_([1, 3], [1, 3])] = (2 * matrix @ matrix.T + 0.5 * np.eye(2)) / 10
    p[2, 2] = 3.5 / 10
    sums = Sums(*map(jnp.asarray, (1.0, np.zeros(0), np.ones(4), np.zeros((0, 4)), np.eye(4))))
    got = added(penalty.matrix, jnp.asarray(theta), sums)
    assert float(got.loss) == pytest.approx(1 + theta @ p @ theta / 2)
    assert np.asarray(got.grad) == pytest.approx(1 + p @ theta)
    assert np.asarray(got.hess) == pytest.approx(np.eye(4) + p)


def curve(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One-hot steps with little signal: too many of them without a penalty."""
    rng = np.random.default_rng(seed)
    step = rng.integers(0, 20, 600)
    y = (rng.random(600) < expit(0.08 * (step - 10))).astype(np.int64)
    return np.eye(20)[step], y


def sums_at(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> Sums:
    z = np.hstack([np.ones((len(x), 1)), x])
    scores = z @ theta
    p = expit(scores)
    loss = np.logaddexp(0, np.where(y == 1, -scores, scores)).mean()
    hess = z.T @ ((p * (1 - p))[:, None] * z) / len(y)
    parts = (loss, np.zeros(0), z.T @ (p - y) / len(y), np.zeros((0, len(theta))), hess)
    return Sums(*map(jnp.asarray, parts))


def test_the_slopes_of_aic_are_its_differences() -> None:
    x, y = curve()
    terms = (
        Term("low", np.arange(1, 11), np.ones(10)),
        Term("high", np.arange(11, 21), _second_differences(10)),
    )
    penalty = Penalty(terms, (3.0, 20.0), len(y), 21, slight=0.1)
    model = Quadratic.at(np.full(21, 0.1), sums_at(np.full(21, 0.1), x, y))
    value, slopes = model._aic(penalty)
    for k in range(2):
        ends = []
        for shift in (1e-5, -1e-5):
            moved = np.log(penalty.strengths) + shift * np.eye(2)[k]
            ends.append(model._aic(penalty.of_strengths(np.exp(moved).tolist()))[0])
        assert slopes[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)
    assert sum(model.edf(penalty)) + 1 == pytest.approx(
        np.trace(np.linalg.solve(model.hess + penalty.matrix, model.hess)), abs=0.05
    )
    assert model.aic(penalty) == pytest.approx(2 * value)


def _second_differences(size: int) -> np.ndarray:
    d = np.diff(np.eye(size), 2, axis=0)
    matrix: np.ndarray = d.T @ d
    return matrix


@pytest.mark.slow
def test_the_chosen_strength_has_the_lowest_aic_of_all_refits() -> None:
    x, y = curve()
    penalty = Penalty((Term("x", np.arange(1, 21), np.ones(20)),), (1.0,), len(y), 21)
    choosing = Choosing(penalty)
    found = drive(
        Newton(1e-9), lambda q, _: sums_at(np.asarray(q.theta), x, y), np.zeros(21), np.zeros(0),
        50, penalty=choosing,
    )  # fmt: skip
    assert found.status is Status.CONVERGED

    def aic(strength: float) -> float:
        own = penalty.of_strengths([strength])
        best = drive(
            Newton(1e-9), lambda q, _: sums_at(np.asarray(q.theta), x, y), np.zeros(21),
            np.zeros(0), 50, penalty=own,
        )  # fmt: skip
        sums = sums_at(best.theta, x, y)
        hess = np.asarray(sums.hess)
        edf = np.trace(np.linalg.solve(hess + np.diag(own.matrix), hess))
        return float(2 * len(y) * sums.loss + 2 * edf)

    lowest = min(aic(10.0**k) for k in np.arange(-1, 3.1, 0.25))
    assert aic(choosing.now.strengths[0]) <= lowest + 0.5
