"""Models as init/apply pairs, and the loss with its curvature against derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax

from fairsilo.coded import Coded, dense
from fairsilo.compute import Array, jax, jnp
from fairsilo.fairness import Dgeo
from fairsilo.model import Model, Params, logistic_regression, mlp
from fairsilo.model.loss import cross_entropy, curvature, probabilities
from fairsilo.predictor.base import BLOCK, Plain
from fairsilo.solver import Lbfgs, Newton, Status
from fairsilo.sums import Compiled
from tests.engine.sums import weighted_rows
from tests.tables import make


def test_binary_loss_by_hand() -> None:
    scores = jnp.array([[0.0], [2.0], [-3.0], [800.0], [-800.0]])
    y = jnp.array([1, 1, 0, 1, 1])
    want = [np.log(2), -np.log(expit(2)), -np.log(1 - expit(-3)), 0.0, 800.0]
    np.testing.assert_allclose(cross_entropy(scores, y), want, rtol=1e-12, atol=1e-300)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-7), (np.float64, 1e-15)])
def test_binary_slope_by_hand_and_for_many_runs_at_once(dtype: type, close: float) -> None:
    """p - y, also at the start (0) and at extreme scores; runs are another axis of the scores."""
    u: np.ndarray = np.array([0.0, 2.0, -3.0, 800.0, -800.0], dtype)
    y = jnp.array([1, 0, 0, 1, 1])

    def total(scores: Array) -> Array:
        return jnp.sum(cross_entropy(scores, y[:, None]))

    both = jnp.asarray(np.stack([u, -u], axis=1)[:, :, None])
    want = np.stack([expit(u) - y, expit(-u) - y], axis=1)
    np.testing.assert_allclose(jax.jit(jax.grad(total))(both)[:, :, 0], want, atol=close)
    each = [cross_entropy(both[:, run], y) for run in range(2)]
    np.testing.assert_array_equal(cross_entropy(both, y[:, None]), np.stack(each, axis=1))


@pytest.mark.slow
def test_two_softmax_classes_are_the_sigmoid() -> None:
    u = np.linspace(-4, 4, 9)[:, None]
    two = jnp.asarray(np.hstack([np.zeros_like(u), u]))
    y = jnp.asarray(np.arange(9) % 2)
    np.testing.assert_allclose(cross_entropy(two, y), cross_entropy(jnp.asarray(u), y), rtol=1e-12)
    np.testing.assert_allclose(probabilities(two), probabilities(jnp.asarray(u)), rtol=1e-12)
    three = np.array([[1.0, -2.0, 0.5]])
    np.testing.assert_allclose(
        cross_entropy(jnp.asarray(three), jnp.array([2])), -log_softmax(three, axis=1)[:, 2]
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_curvature_is_the_second_derivative(outputs: int) -> None:
    scores = jnp.asarray(np.random.default_rng(0).normal(size=(4, outputs)))
    y = jnp.array([0, 1, 0, 1])

    def one(row: Array, label: Array) -> Array:
        return cross_entropy(row[None], label[None])[0]

    want = jax.jit(jax.vmap(jax.hessian(one)))(scores, y)
    np.testing.assert_allclose(curvature(scores), want, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_sizes_and_seeds() -> None:
    assert logistic_regression(104).size == 105
    assert logistic_regression(5, 3).size == 18
    assert mlp(104).size == 104 * 8 + 8 + 8 * 4 + 4 + 4 + 1
    np.testing.assert_array_equal(mlp(6).start(3), mlp(6).start(3))
    assert not np.array_equal(mlp(6).start(3), mlp(6).start(4))
    assert logistic_regression(6) is logistic_regression(6)  # so that programs are compiled once


@pytest.mark.slow
def test_any_pair_of_functions_trains_under_the_constraint() -> None:
    """A model of the user's own: a product of two linear scores."""

    def init(key: Array) -> Params:
        return {"a": 0.1 * jax.random.normal(key, (3,)), "b": jnp.ones(3), "bias": jnp.zeros(())}

    def apply(params: Params, x: Array) -> Array:
        scores: Array = (x @ params["a"]) * (x @ params["b"]) + params["bias"]
        return scores[:, None]

    model = Model("product", 3, 2, init, apply)
    assert model.size == 7
    rows = weighted_rows(make(11, [60, 50, 40], 3).federation, [Dgeo(0, 1, 1)])
    free = Compiled(model, rows).solve(Newton(), model.start(0), [1e3], 150)
    gap = abs(float(free.last.d[0]))
    for solver in (Newton(), Lbfgs(tolerance=1e-5)):
        got = Compiled(model, rows).solve(solver, model.start(0), [gap / 2], 300)
        assert got.status is Status.CONVERGED
        assert abs(float(got.last.d[0])) == pytest.approx(gap / 2, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("make_model", [logistic_regression, mlp])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_predictor_says_what_the_model_does(make_model: Any, classes: int) -> None:
    """In NumPy or compiled, of a matrix and of codes, in blocks of rows."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(BLOCK + 5, 4))
    y = rng.integers(0, classes, len(x))
    s = np.zeros(len(x), dtype=np.int64)
    model = make_model(4, classes)
    theta = rng.normal(size=model.size)
    scores = model.scores(jnp.asarray(theta), jnp.asarray(x))
    one = Plain(model, theta)
    np.testing.assert_allclose(
        one.losses(x, y, s), cross_entropy(scores, jnp.asarray(y)), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(one.probabilities(x, s), probabilities(scores), atol=1e-12)
    coded = Coded.of([2, 0, 0], [y % 2, x[:, 0], x[:, 1]], len(x))
    np.testing.assert_allclose(one.losses(coded, y, s), one.losses(dense(coded), y, s), rtol=1e-8)


@pytest.mark.slow
def test_small_layers_give_the_same_scores_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlp(5, classes=3)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 5)))
    theta = jnp.asarray(model.start(0))
    expected = model.scores(theta, x)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    np.testing.assert_allclose(model.scores(theta, x), expected, atol=1e-15)
