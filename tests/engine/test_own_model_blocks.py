"""A model that takes no codes: silos make its matrix in blocks, as the pooled engine does."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

from fairsilo.coded import Coded, dense
from fairsilo.compute import jax, jnp
from fairsilo.fairness.constraint import Measure
from fairsilo.model.base import Model
from fairsilo.question.model_sums import flatten, sums_of
from fairsilo.solver.base import Order, Query
from fairsilo.sums.rows import BLOCK, Rows, row_sums

WIDTHS = (0, 40, 30)


@lru_cache
def squares(features: int) -> Model:
    """Scores with the squares of a product: a matrix is all that it takes."""

    def init(key: Any) -> dict[str, Any]:
        return {"a": jax.random.normal(key, (features,)) / 9, "b": jnp.zeros(())}

    def apply(params: dict[str, Any], x: Any) -> Any:
        return (jnp.tanh(x @ params["a"]) + jnp.square(x).sum(axis=1) * params["b"])[:, None]

    return Model("squares", features, 2, init, apply)


def rows_of(n: int) -> Coded:
    rng = np.random.default_rng(0)
    values = [rng.integers(0, width, n) for width in WIDTHS[1:]]
    table: Coded = Coded.of(WIDTHS, [rng.normal(size=n), *values], n)
    return table


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["loss", "rate"])
@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("rows", [BLOCK - 1, 2 * BLOCK + 5])
def test_blocks_give_the_sums_of_the_matrix(order: Order, rows: int, measure: Measure) -> None:
    x, rng = rows_of(rows), np.random.default_rng(1)
    y, w, v = rng.integers(0, 2, rows), rng.random(rows), rng.normal(size=(1, rows))
    model = squares(x.shape[1])
    theta, mu = model.start(0) + 0.01, np.array([0.7])
    found = sums_of(model, order.value, x, y, w, v, theta, mu, measure)
    whole = Rows(*map(jnp.asarray, (dense(x), y, w, v)))
    one = jax.jit(partial(row_sums, model, order, measure=measure))
    expected = flatten(one(whole, Query(jnp.asarray(theta), jnp.asarray(mu))))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


PEAK = """
import resource
import numpy as np
from fairsilo.coded import Coded
from fairsilo.question.model_sums import sums_of
from tests.engine.test_own_model_blocks import squares

widths, n, rng = (0, 250, 250), 1 << 18, np.random.default_rng(0)
x = Coded.of(widths, [rng.normal(size=n), *(rng.integers(0, w, n) for w in widths[1:])], n)
model = squares(x.shape[1])
own = (x, rng.integers(0, 2, n), np.ones(n) / n, np.ones((1, n)) / n)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sums_of(model, "first", *own, model.start(0), np.zeros(1))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.process
def test_the_matrix_of_all_rows_is_never_made() -> None:
    """It would be 1.05 GB."""
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK], check=True, capture_output=True, text=True
    )
    assert int(told.stdout) < 0.5e9
