"""Coded rows equal the dense matrix: same products and sums, a tenth of the bytes."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.compute import Array, jax, jnp
from fairsilo.model import Model, logistic_regression, mlp
from fairsilo.solver import Agp, Order, Query
from fairsilo.sums import Coded, Compiled, Rows, code, dense, padded
from fairsilo.sums.coded import _by_addition, _by_comparison
from tests.engine.sums import compiled_sums

WIDTHS = (3, 1, 300, 2)


def matrix(n: int = 200, seed: int = 0) -> np.ndarray:
    """Numbers between one-hot blocks, some rows of which are all zero, one block over 255 wide."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, 2))]
    for width in WIDTHS:
        parts += [np.eye(width + 1)[rng.integers(0, width + 1, n)][:, :width]]
        parts += [rng.normal(size=(n, 1))]
    return np.concatenate(parts, axis=1)


def table(x: np.ndarray) -> Coded:
    found = code(x, np.float64)
    assert isinstance(found, Coded)
    return found


def weighted(x: np.ndarray, seed: int = 1) -> Rows:
    rng = np.random.default_rng(seed)
    n = len(x)
    y = (rng.random(n) < 0.4).astype(np.int64)
    return Rows(x, y, np.full(n, 1 / n), rng.normal(size=(1, n)) / n)  # type: ignore[arg-type]


def test_coding_is_exact_and_small() -> None:
    x = matrix()
    coded = table(x)
    np.testing.assert_array_equal(dense(coded), x)
    assert coded.shape == x.shape
    assert coded.codes.dtype == np.uint8
    widths = [width for _, width in coded.layout.categories]
    assert max(widths) <= 255
    assert sum(widths) == sum(WIDTHS)
    assert coded.nbytes < x.nbytes / 30


def test_numbers_alone_stay_a_matrix() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    assert not isinstance(code(x, np.float64), Coded)


def test_columns_that_are_one_together_are_not_one_category() -> None:
    x = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    layout = table(x).layout
    assert layout.categories == ((0, 1), (1, 1))
    assert layout.codes == ((0, 1),)


@pytest.mark.parametrize(("k", "numbers"), [(1, 6), (4, 6), (12, 6), (1, 0), (1, 11)])
def test_products_are_the_matrix_products(k: int, numbers: int) -> None:
    """Few and many columns, of the weight and of the numbers, each with its own code path."""
    categories = matrix()[:, 2:]
    categories = categories[:, ((categories == 0) | (categories == 1)).all(axis=0)]
    x = np.hstack([np.random.default_rng(3).normal(size=(len(categories), numbers)), categories])
    coded = table(x)
    rng = np.random.default_rng(2)
    weight, g = rng.normal(size=(x.shape[1], k)), rng.normal(size=(len(x), k))
    many = rng.normal(size=(3, x.shape[1], k))

    @jax.jit
    def products(coded: Coded, weight: Array, g: Array, many: Array) -> tuple[Array, ...]:
        product, pull_back = jax.vjp(lambda w: coded @ w, weight)
        return product, pull_back(g)[0], jax.vmap(lambda w: coded @ w)(many)

    product, pulled, each = products(coded, *map(jnp.asarray, (weight, g, many)))
    np.testing.assert_allclose(product, x @ weight, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pulled, x.T @ g, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(each, x @ many, rtol=1e-11)
    # The GPU's alternative to adding row by row.
    np.testing.assert_allclose(
        _by_comparison(coded, jnp.asarray(g)), jax.jit(_by_addition)(coded, g), atol=1e-11
    )


@pytest.mark.parametrize("model", [logistic_regression(312), mlp(312)], ids=["lr", "mlp"])
def test_sums_are_those_of_the_matrix(model: Model) -> None:
    x = matrix()
    rows = weighted(x)
    coded = Rows(table(x), *map(jnp.asarray, (rows.y, rows.w, rows.v)))
    query = Query(jnp.asarray(model.start(1)), jnp.array([0.3]))
    # No Hessian for the network: with 312 inputs it would have millions of entries.
    for order in (Order.LAGRANGIAN, Order.SECOND if model.name == "lr" else Order.FIRST):
        want, got = (compiled_sums(model, order, r, query) for r in (rows, coded))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), want, got
        )


def test_pooled_runs_follow_the_dense_sums_in_blocks_and_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairsilo.sums.compiled.CACHED", 64)
    monkeypatch.setattr("fairsilo.sums.compiled.SMALLEST", 16)
    x = matrix(333)
    rows, model = weighted(x), logistic_regression(312)
    engine = Compiled(model, rows)
    assert isinstance(engine.rows.x, Coded)
    starts = np.stack([np.zeros(model.size), np.full(model.size, 0.1)])
    got = engine.solve_many(Agp(), starts, [[0.01], [0.5]], 6)
    for run, outcome in enumerate(got):
        theta, mu = starts[run], np.zeros(1)
        a, b, epsilon = np.zeros(1), np.zeros(1), [0.01, 0.5][run]
        for _ in range(6):
            mu = a - b
            sums = compiled_sums(model, Order.LAGRANGIAN, rows, Query(theta, mu))  # type: ignore[arg-type]
            d = np.asarray(sums.d)
            theta = theta - 0.05 * np.asarray(sums.grad)
            a, b = (
                np.maximum((1 - 5e-5) * lam + 0.05 * (sign * d - epsilon), 0)
                for lam, sign in ((a, 1), (b, -1))
            )
        np.testing.assert_allclose(outcome.theta, theta, rtol=1e-9, atol=1e-12)


def test_silos_rows_are_cut_out_of_codes() -> None:
    x = matrix(60)
    rows, model = weighted(x), logistic_regression(312)
    coded = Rows(table(x), rows.y, rows.w, rows.v)
    query = Query(jnp.asarray(np.full(model.size, 0.1)), jnp.array([0.3]))
    want, got = (
        compiled_sums(model, Order.LAGRANGIAN, padded(r, 0, 13), query)
        + compiled_sums(model, Order.LAGRANGIAN, padded(r, 13, 60), query)
        for r in (rows, coded)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), want, got)
