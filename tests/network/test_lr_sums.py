"""The NumPy sums against those of the simulation, and against finite differences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.compute import jnp
from fairsilo.model import MODELS
from fairsilo.question.lr_sums import linear_sums
from fairsilo.question.model_sums import flatten
from fairsilo.question.round import numbers_up, unflatten
from fairsilo.solver.base import Order, Query
from fairsilo.sums.rows import Rows
from tests.engine.sums import compiled_sums


def rows_of(seed: int, n: int, features: int, classes: int, k: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)) * 3
    y = rng.integers(0, classes, n)
    return x, y, rng.random(n), rng.normal(size=(k, n))


@pytest.mark.slow
@pytest.mark.parametrize("order", list(Order))
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    features=st.sampled_from([1, 4]),
    classes=st.sampled_from([2, 3]),
    k=st.sampled_from([0, 2]),
)
def test_equals_the_sums_of_the_simulation(
    order: Order, seed: int, n: int, features: int, classes: int, k: int
) -> None:
    x, y, w, v = rows_of(seed, 40, features, classes, k)
    # The simulation gets rows of weight zero instead of fewer rows: JAX compiles for each shape.
    w[n:], v[:, n:] = 0, 0
    model = MODELS["lr"](features, classes)
    rng = np.random.default_rng(seed + 1)
    theta, mu = rng.normal(size=model.size), rng.normal(size=k)
    found = linear_sums(order.value, x[:n], y[:n], w[:n], v[:, :n], theta, mu, classes)
    sums = compiled_sums(
        model, order, Rows(*map(jnp.asarray, (x, y, w, v))), Query(jnp.array(theta), jnp.array(mu))
    )
    expected = flatten(sums)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
    assert len(found) == numbers_up(order, model.size, k)
    back = flatten(unflatten(expected, order, model.size, k))
    np.testing.assert_array_equal(back, expected)


def test_far_scores_stay_finite() -> None:
    x = np.array([[1e4], [-1e4]])
    vector = linear_sums(
        "second", x, np.array([0, 1]), np.ones(2), np.ones((1, 2)), np.array([0.0, 1.0]),
        np.zeros(1), 2,
    )  # fmt: skip
    assert np.isfinite(vector).all()
    assert vector[0] == pytest.approx(2e4)


ANSWERS = """
import sys
from pathlib import Path
import jax.monitoring
import numpy as np
from fairsilo.network.settings import read_settings
from fairsilo.network.silo import answer
from fairsilo.network.wire import Ask
from fairsilo.question import Columns, Counts, Evaluate, Round
from tests.network.silos import make_town

town = make_town(Path(sys.argv[1]), secure_aggregation=False)
settings, agreed = read_settings(town.settings("silo0")), town.agreed
scalings = np.tile([0.0, 1.0, 0.0], len(agreed.table.numbers))
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **more: compiled.append(event) if "backend_compile" in event else None
)

def ask(question, encoded=True):
    given = scalings if encoded else np.zeros(0)
    asked = Ask(question, 1, agreed.fingerprint, "fedfair", encoded, given, training="one")
    return answer(settings, agreed, asked, {})

theta = np.zeros(agreed.problem(scalings).model.size)
ask(Columns(), encoded=False)
totals = ask(Counts())
ask(Round(theta, np.zeros(1), "second", totals))
ask(Evaluate(theta))
assert not compiled, compiled
jax.jit(lambda x: x + 1)(theta)
assert compiled
"""


@pytest.mark.slow
def test_a_silo_with_logistic_regression_compiles_nothing(tmp_path: Path) -> None:
    """It answers its first question at once. The last lines show that compiling is noticed."""
    command = [sys.executable, "-W", "ignore", "-c", ANSWERS, str(tmp_path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
