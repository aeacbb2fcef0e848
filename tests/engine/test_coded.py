"""Coded rows equal the dense matrix: same products and sums, a tenth of the bytes."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.coded import Coded, dense, gram, joined, of_each, pulled
from fairsilo.compute import Array, jax, jnp
from fairsilo.model import Model, logistic_regression, mlp
from fairsilo.solver import Agp, Order, Query
from fairsilo.sums import Compiled, Placed, Rows, padded, placed
from fairsilo.sums.coded import _by_addition, _by_comparison, _by_product
from fairsilo.sums.coded import gram as placed_gram
from tests.engine.sums import compiled_sums

WIDTHS = (3, 1, 300, 2)


def coded_rows(n: int = 200, seed: int = 0, numbers: int = 1) -> Coded:
    """Numbers between categories, some rows of which are blank, one category over 255 wide."""
    rng = np.random.default_rng(seed)
    widths: list[int] = []
    columns: list[np.ndarray] = []
    for width in WIDTHS:
        widths += [width] + [0] * numbers
        columns += [rng.integers(-1, width, n)]
        columns += [rng.normal(size=n) for _ in range(numbers)]
    found = Coded.of(widths, columns, n)
    assert isinstance(found, Coded)
    return found


def matrix_of(coded: Coded) -> np.ndarray:
    """The matrix, cell by cell."""
    numbers = iter(coded.numbers.T)
    x = np.zeros(coded.shape)
    for k in coded.layout.numbers:
        x[:, k] = next(numbers)
    for j, categories in enumerate(coded.layout.codes):
        for row, code in enumerate(coded.codes[:, j]):
            rest = int(code)
            for category in reversed(categories):
                start, width = coded.layout.categories[category]
                rest, value = divmod(rest, width + 1)
                if value < width:
                    x[row, start + value] = 1.0
    return x


SIZE = sum(WIDTHS) + len(WIDTHS)


def weighted(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(np.int64)
    return y, np.full(n, 1 / n), rng.normal(size=(1, n)) / n


def both(n: int = 200, seed: int = 0) -> tuple[Rows, Rows]:
    """The same weighted rows, dense and coded."""
    coded = coded_rows(n, seed)
    rest = weighted(n)
    return Rows(matrix_of(coded), *rest), Rows(placed(coded), *rest)  # type: ignore[arg-type]


def test_coding_is_exact_and_small() -> None:
    coded = coded_rows()
    x = matrix_of(coded)
    np.testing.assert_array_equal(dense(coded), x)
    np.testing.assert_array_equal(dense(placed(coded)), x)
    np.testing.assert_array_equal(dense(x), x)
    assert coded.shape == x.shape
    assert coded.codes.dtype == np.uint8
    widths = [width for _, width in coded.layout.categories]
    assert max(widths) <= 255
    assert sum(widths) == sum(WIDTHS)
    assert coded.nbytes < x.nbytes / 30


def test_some_rows_and_rows_together() -> None:
    coded = coded_rows(40)
    x = matrix_of(coded)
    chosen = np.array([3, 1, 1, 20])
    np.testing.assert_array_equal(dense(coded[chosen]), x[chosen])
    np.testing.assert_array_equal(dense(joined([coded[:7], coded[7:]])), x)
    np.testing.assert_array_equal(joined([x[:7], x[7:]]), x)
    np.testing.assert_array_equal(dense(of_each(coded, np.square)), x**2)


def test_numbers_alone_are_a_matrix() -> None:
    columns = list(np.random.default_rng(0).normal(size=(3, 20)))
    np.testing.assert_array_equal(Coded.of([0, 0, 0], columns, 20), np.transpose(columns))


@pytest.mark.parametrize("numbers", [0, 1, 3])
def test_products_are_the_matrix_products(numbers: int) -> None:
    coded = coded_rows(300, numbers=numbers)
    x, rng = matrix_of(coded), np.random.default_rng(2)
    c = rng.normal(size=len(x))
    z = np.hstack([np.ones((len(x), 1)), x])
    want = z.T @ (c[:, None] * z)
    for table in (coded, x):
        for k in (1, 4):
            weight, g = rng.normal(size=(x.shape[1], k)), rng.normal(size=(len(x), k))
            np.testing.assert_allclose(table @ weight, x @ weight, atol=1e-12)
            np.testing.assert_allclose(pulled(table, g), x.T @ g, atol=1e-11)
        np.testing.assert_allclose(table @ weight[:, 0], x @ weight[:, 0], atol=1e-12)
        np.testing.assert_allclose(gram(table, c), want, atol=1e-11)
    compiled = jax.jit(placed_gram)(placed(coded), jnp.asarray(c))
    np.testing.assert_allclose(compiled, want, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "numbers"), [(1, 2), (4, 2), (12, 2), (1, 0), (1, 3)])
def test_compiled_products_are_the_matrix_products(k: int, numbers: int) -> None:
    """Few and many columns, of the weight and of the numbers, each with its own code path."""
    plain = coded_rows(numbers=numbers)
    x, coded = matrix_of(plain), placed(plain)
    rng = np.random.default_rng(2)
    weight, g = rng.normal(size=(x.shape[1], k)), rng.normal(size=(len(x), k))
    many = rng.normal(size=(3, x.shape[1], k))

    @jax.jit
    def products(coded: Placed, weight: Array, g: Array, many: Array) -> tuple[Array, ...]:
        product, pull_back = jax.vjp(lambda w: coded @ w, weight)
        return product, pull_back(g)[0], jax.vmap(lambda w: coded @ w)(many)

    product, pulled_back, each = products(coded, *map(jnp.asarray, (weight, g, many)))
    np.testing.assert_allclose(product, x @ weight, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pulled_back, x.T @ g, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(each, x @ many, rtol=1e-11)
    np.testing.assert_allclose(_by_product(coded, jnp.asarray(g)), x.T @ g, atol=1e-11)
    # The GPU's alternatives to adding row by row.
    np.testing.assert_allclose(
        _by_comparison(coded, jnp.asarray(g)), jax.jit(_by_addition)(coded, g), atol=1e-11
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [logistic_regression(SIZE), logistic_regression(SIZE, 3), mlp(SIZE)],
    ids=["lr", "three classes", "mlp"],
)
def test_sums_are_those_of_the_matrix(model: Model) -> None:
    query = Query(jnp.asarray(model.start(1)), jnp.array([0.3]))
    # No Hessian for the network: with 310 inputs it would have millions of entries.
    for order in (Order.LAGRANGIAN, Order.SECOND if model.name == "lr" else Order.FIRST):
        want, got = (compiled_sums(model, order, rows, query) for rows in both())
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), want, got
        )


def test_pooled_runs_follow_the_dense_sums_in_blocks_and_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairsilo.sums.compiled.CACHED", 64)
    monkeypatch.setattr("fairsilo.sums.compiled.SMALLEST", 16)
    (rows, coded), model = both(333), logistic_regression(SIZE)
    engine = Compiled(model, coded)
    assert isinstance(engine.rows.x, Placed)
    starts = np.stack([np.zeros(model.size), np.full(model.size, 0.1)])
    got = engine.solve_many(Agp(), starts, [[0.01], [0.5]], 6)
    for run, outcome in enumerate(got):
        theta, mu = starts[run], np.zeros(1)
        a, b, epsilon = np.zeros(1), np.zeros(1), [0.01, 0.5][run]
        for _ in range(6):
            mu = a - b
            sums = compiled_sums(model, Order.LAGRANGIAN, rows, Query(theta, mu))
            d = np.asarray(sums.d)
            theta = theta - 0.05 * np.asarray(sums.grad)
            a, b = (
                np.maximum((1 - 5e-5) * lam + 0.05 * (sign * d - epsilon), 0)
                for lam, sign in ((a, 1), (b, -1))
            )
        np.testing.assert_allclose(outcome.theta, theta, rtol=1e-9, atol=1e-12)


def test_silos_rows_are_cut_out_of_codes() -> None:
    model = logistic_regression(SIZE)
    query = Query(jnp.asarray(np.full(model.size, 0.1)), jnp.array([0.3]))
    want, got = (
        compiled_sums(model, Order.LAGRANGIAN, padded(rows, 0, 13), query)
        + compiled_sums(model, Order.LAGRANGIAN, padded(rows, 13, 60), query)
        for rows in both(60)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), want, got)
