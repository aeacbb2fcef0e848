"""Constraints on rates: the true gap of errors, and a surrogate with the right derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine.base import answers
from fairsilo.fairness import Dgeo
from fairsilo.model import Model, logistic_regression
from fairsilo.model.loss import SHARPNESS, cross_entropy, error_curvature, smooth_error
from fairsilo.partition.federation import Federation
from fairsilo.solver import Order, Query
from fairsilo.sums import Rows
from tests.engine.sums import compiled_sums, weighted_rows
from tests.method.tasks import posed

PAIRS = (Dgeo(0, 1, 1), Dgeo(0, 1, 0))


def rows_of(classes: int) -> tuple[Federation, Rows, Model, Query]:
    rng = np.random.default_rng(classes)
    n = 60
    federation = Federation.of(
        rng.normal(size=(n, 3)), rng.integers(0, classes, n), rng.integers(0, 2, n),
        rng.integers(0, 3, n), groups=2, classes=classes,
    )  # fmt: skip
    model = logistic_regression(3, classes)
    query = Query(jnp.asarray(rng.normal(size=model.size)), jnp.asarray([0.3, -0.2]))
    return federation, weighted_rows(federation, PAIRS), model, query


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_the_gap_is_of_true_errors_and_the_slope_of_the_surrogate(classes: int) -> None:
    federation, rows, model, query = rows_of(classes)
    scores = np.asarray(model.scores(query.theta, rows.x))
    if classes == 2:
        scores = np.hstack([np.zeros((len(scores), 1)), scores])
    wrong = np.argmax(scores, axis=1) != federation.y

    def share(group: int, c: int) -> float:
        return float(wrong[(federation.s == group) & (federation.y == c)].mean())

    got = compiled_sums(model, Order.SECOND, rows, query, "rate")
    true, surrogate = np.split(np.asarray(got.d), 2)
    np.testing.assert_allclose(
        true, [share(0, 1) - share(1, 1), share(0, 0) - share(1, 0)], atol=1e-12
    )

    def smooth(theta: Array) -> Array:
        """v @ (1 - the probability of the row's class under sharpened scores)."""
        own = model.scores(theta, rows.x) * SHARPNESS
        return rows.v @ (1 - jnp.exp(-cross_entropy(own, rows.y)))

    def objective(theta: Array) -> Array:
        return rows.w @ cross_entropy(model.scores(theta, rows.x), rows.y)

    np.testing.assert_allclose(surrogate, smooth(query.theta), atol=1e-12)
    assert got.jac is not None
    assert got.hess is not None
    np.testing.assert_allclose(got.jac, jax.jit(jax.jacfwd(smooth))(query.theta), atol=1e-12)
    np.testing.assert_allclose(got.grad, jax.jit(jax.grad(objective))(query.theta), atol=1e-12)
    whole = jax.jit(jax.hessian(lambda t: objective(t) + query.mu @ smooth(t)))(query.theta)
    np.testing.assert_allclose(got.hess, whole, atol=1e-10)
    lagrangian = compiled_sums(model, Order.LAGRANGIAN, rows, query, "rate")
    np.testing.assert_allclose(lagrangian.grad, got.grad + got.jac.T @ query.mu, atol=1e-12)


def test_silo_by_silo_is_the_same() -> None:
    federation, rows, model, query = rows_of(2)
    problem, silos = posed(
        federation, pairs=PAIRS, estimator="pooled", measure="rate", engine="clientwise"
    )
    apart = answers(silos, problem)(query, Order.SECOND)
    together = compiled_sums(model, Order.SECOND, rows, query, "rate")
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(apart), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_curvature_by_finite_differences() -> None:
    scores, y = jnp.asarray([[0.3, -0.2, 0.8]]), jnp.asarray([2])
    step = 1e-4
    want = np.zeros((3, 3))
    for i in range(3):
        for k in range(3):
            corners = [
                sign * other * float(smooth_error(
                    scores + step * (sign * jnp.eye(3)[i] + other * jnp.eye(3)[k]), y
                )[0])
                for sign in (1, -1)
                for other in (1, -1)
            ]  # fmt: skip
            want[i, k] = sum(corners) / (4 * step**2)
    np.testing.assert_allclose(error_curvature(scores, y)[0], want, atol=1e-5)
