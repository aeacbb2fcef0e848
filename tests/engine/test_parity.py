"""The engines agree with each other and with the slow oracle of the paper's equations."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.compute import jax, jnp
from fairsilo.engine import Pooled
from fairsilo.engine.base import answers
from fairsilo.engine.loop import drive
from fairsilo.engine.pooled import solve_many
from fairsilo.fairness import Dgeo, Estimator
from fairsilo.model import logistic_regression, mlp
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Plain
from fairsilo.question import Problem, Round
from fairsilo.solver import Agp, Lbfgs, Newton, Order, Query
from fairsilo.solver.base import Sums
from fairsilo.sums import Compiled, Rows, row_sums, stack_silos
from fairsilo.sums.compiled import UNROLLED, _compiled
from fairsilo.sums.rows import LONG, PIECE, even, in_pieces
from tests import oracle
from tests.engine.sums import compiled_local, compiled_sums, weighted_rows
from tests.method.tasks import posed
from tests.tables import RandomTable, make, random_tables

PAIR = Dgeo(0, 1, 1)
FEW = settings(max_examples=40, deadline=None)


def weighted(federation: Federation, estimator: Estimator) -> Rows:
    return weighted_rows(federation, [PAIR], estimator)


@FEW
@given(random_tables(), st.sampled_from(["pooled", "mean"]), st.floats(-2, 2))
def test_sums_match_the_equations(table: RandomTable, how: Estimator, mu: float) -> None:
    if how == "mean" and not oracle.local_estimates(
        oracle.row_loss, table.theta, table.clients, 0, 1, 1
    ):
        return
    rows = weighted(table.federation, how)
    model = logistic_regression(table.federation.x.shape[1])
    query = Query(jnp.asarray(table.package_theta), jnp.array([mu]))
    got = compiled_sums(model, Order.SECOND, rows, query)

    loss = oracle.federated_loss(table.theta, table.clients)
    d = oracle.estimate(oracle.row_loss, table.theta, table.clients, 0, 1, 1, how)
    gradient = oracle.federated_gradient(table.theta, table.clients)
    gradient_d = oracle.estimate(oracle.row_gradient, table.theta, table.clients, 0, 1, 1, how)
    np.testing.assert_allclose(got.loss, loss, rtol=1e-10)
    np.testing.assert_allclose(got.d, [d], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got.grad, np.roll(gradient, 1), rtol=1e-9, atol=1e-12)
    assert got.jac is not None
    np.testing.assert_allclose(got.jac[0], np.roll(gradient_d, 1), rtol=1e-9, atol=1e-12)
    first = compiled_sums(model, Order.LAGRANGIAN, rows, query)
    np.testing.assert_allclose(
        first.grad, np.roll(gradient + mu * gradient_d, 1), rtol=1e-9, atol=1e-12
    )


@FEW
@given(random_tables(), st.floats(-2, 2))
def test_hessian_matches_the_sum_of_row_hessians(table: RandomTable, mu: float) -> None:
    rows = weighted(table.federation, "pooled")
    model = logistic_regression(table.federation.x.shape[1])
    query = Query(jnp.asarray(table.package_theta), jnp.array([mu]))
    got = compiled_sums(model, Order.SECOND, rows, query).hess
    assert got is not None
    c = np.asarray(rows.w) + mu * np.asarray(rows.v)[0]
    stacked = np.concatenate([client.x for client in table.clients])
    want = sum(
        weight * oracle.row_hessian(table.theta, x) for weight, x in zip(c, stacked, strict=True)
    )
    np.testing.assert_allclose(got, np.roll(want, (1, 1), (0, 1)), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@FEW
@given(random_tables(), st.sampled_from(["pooled", "mean"]), st.sampled_from([0.0, 0.05]))
def test_agp_in_float32_follows_algorithm_1(
    table: RandomTable, how: Estimator, epsilon: float
) -> None:
    if how == "mean" and not oracle.local_estimates(
        oracle.row_loss, table.theta, table.clients, 0, 1, 1
    ):
        return
    rounds = 20
    theta = oracle.agp(table.theta, table.clients, (0, 1, 1), epsilon, rounds, how)[0]
    model = logistic_regression(table.federation.x.shape[1])
    engine = Compiled(model, weighted(table.federation, how), np.float32)
    got = engine.solve(Agp(), table.package_theta, [epsilon], rounds)
    scale = max(1.0, float(np.abs(theta).max()))
    np.testing.assert_allclose(got.theta, np.roll(theta, 1), rtol=1e-5, atol=1e-5 * scale)
    assert got.rounds == rounds


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(random_tables(), st.sampled_from([Agp(), Newton(), Lbfgs()]))
def test_clientwise_equals_pooled(table: RandomTable, solver: Agp | Newton | Lbfgs) -> None:
    rows = weighted(table.federation, "pooled")
    model = logistic_regression(table.federation.x.shape[1])
    together = Compiled(model, rows).solve(solver, table.package_theta, [0.05], 5)
    problem, silos = posed(table.federation, estimator="pooled", engine="clientwise")
    apart = drive(solver, answers(silos, problem), table.package_theta, [0.05], 5)
    assert together.rounds == apart.rounds
    np.testing.assert_allclose(together.history.loss, apart.history.loss, rtol=1e-7)
    np.testing.assert_allclose(together.history.d, apart.history.d, rtol=1e-5, atol=1e-7)


def test_local_constraints_are_the_clients_own_estimates() -> None:
    table = make(3, [8, 3, 12], 2)
    rows = weighted(table.federation, "local")
    model = logistic_regression(2)
    offsets = table.federation.offsets
    silos = stack_silos(rows, offsets)
    query = Query(jnp.asarray(table.package_theta), jnp.array([0.3, -0.2, 0.1]))
    got = compiled_local(model, Order.SECOND, silos, query)
    for i, client in enumerate(table.clients):
        want = oracle.local_estimates(oracle.row_loss, table.theta, [client], 0, 1, 1)
        assert got.d[i] == pytest.approx(want[0] if want else 0.0)
    assert got.loss == pytest.approx(oracle.federated_loss(table.theta, table.clients))
    problem, clients = posed(table.federation, estimator="local", engine="clientwise")
    totals = clients.count(problem).to_vector()
    for order in Order:
        sums = compiled_local(model, order, silos, query)
        messages = []
        for silo, mu in zip(clients.silos, np.asarray(query.mu), strict=True):
            asked = Round(table.package_theta, np.array([mu]), order.value, totals)
            messages.append(asked.read(problem, asked.answer(problem, silo)))
        total = reduce(add, messages)
        np.testing.assert_allclose(sums.d, np.concatenate([one.d for one in messages]), rtol=1e-9)
        if sums.jac is not None:
            apart = np.concatenate([one.jac for one in messages if one.jac is not None])
            np.testing.assert_allclose(sums.jac, apart, rtol=1e-9, atol=1e-12)
        for name in ("loss", "grad", "hess"):
            one, other = getattr(sums, name), getattr(total, name)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    # The gradient of the Lagrangian is the sum that AGP's clients send.
    assert got.jac is not None
    np.testing.assert_allclose(
        compiled_local(model, Order.LAGRANGIAN, silos, query).grad,
        got.grad + query.mu @ got.jac,
        rtol=1e-9,
    )


@pytest.mark.slow
def test_many_runs_at_once_equal_one_by_one() -> None:
    table = make(5, [9, 4, 7], 3)
    rows = weighted(table.federation, "pooled")
    model = logistic_regression(3)
    engine = Compiled(model, rows)
    starts = np.stack([model.start(seed) for seed in range(4)])
    epsilons = np.array([[1e-3], [0.05], [0.2], [1e3]])
    for solver in (Agp(), Newton(), Lbfgs()):
        many = engine.solve_many(solver, starts, epsilons, 12)
        for run, outcome in enumerate(many):
            alone = engine.solve(solver, starts[run], epsilons[run], 12)
            assert alone.rounds == outcome.rounds
            np.testing.assert_allclose(outcome.history.loss, alone.history.loss, rtol=1e-8)


def test_many_runs_with_their_own_weights_share_the_rows() -> None:
    table = make(6, [9, 4, 7], 3)
    model = logistic_regression(3)
    each = [weighted(table.federation, how) for how in ("pooled", "mean")]
    stacked = Rows(
        each[0].x,
        each[0].y,
        np.stack([np.asarray(rows.w) for rows in each]),  # type: ignore[arg-type]
        np.stack([np.asarray(rows.v) for rows in each]),  # type: ignore[arg-type]
    )
    start = model.start(0)
    many = Compiled(model, stacked).solve_many(Newton(), [start, start], [[0.01], [0.01]], 12)
    for rows, outcome in zip(each, many, strict=True):
        alone = Compiled(model, rows).solve(Newton(), start, [0.01], 12)
        np.testing.assert_allclose(outcome.history.loss, alone.history.loss, rtol=1e-8)


def test_network_and_many_classes_sum_the_same_everywhere() -> None:
    rng = np.random.default_rng(0)
    n = 5000  # more than one block of the Gauss-Newton sum
    x, y, s = rng.normal(size=(n, 3)), rng.integers(0, 3, n), rng.integers(0, 2, n)
    federation = Federation.of(x, y, s, rng.integers(0, 7, n), groups=2, classes=3)
    rows = weighted(federation, "mean")
    for model in (mlp(3, 3), logistic_regression(3, 3)):
        query = Query(jnp.asarray(model.start(1)), jnp.array([0.3]))
        together = compiled_sums(model, Order.SECOND, rows, query)
        problem, silos = posed(federation, model=model, engine="clientwise")
        apart = answers(silos, problem)(query, Order.SECOND)
        for one, other in zip(vars(together).values(), vars(apart).values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", [0, 2])
def test_pieces_of_long_tables_add_up_to_the_whole(k: int) -> None:
    rng = np.random.default_rng(3)
    n, model = LONG + 100, mlp(3)
    leaves = (
        rng.normal(size=(n, 3)),
        rng.integers(0, 2, n),
        rng.random(n),
        rng.normal(size=(k, n)),
    )
    table = Rows(*map(jnp.asarray, leaves))
    query = Query(jnp.asarray(model.start(0)), jnp.array([0.3, -0.2])[:k])

    def answer(rows: Rows, query: Query) -> Sums:
        return row_sums(model, Order.LAGRANGIAN, rows, query)

    (longer,) = even([table])

    assert longer.y.shape[-1] % PIECE == 0
    found = jax.jit(partial(in_pieces, answer))(longer, query)
    expected = jax.jit(answer)(table, query)
    np.testing.assert_allclose(found.loss, expected.loss)
    np.testing.assert_allclose(found.d, expected.d, atol=1e-9)
    np.testing.assert_allclose(found.grad, expected.grad, atol=1e-9)


def test_rounds_as_a_gpu_is_given_them_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several rounds per call, a total that is not a multiple, and other compiler options."""
    rng = np.random.default_rng(4)
    n, model = 60, logistic_regression(3)
    leaves = (
        rng.normal(size=(n, 3)),
        rng.integers(0, 2, n),
        rng.random(n),
        rng.normal(size=(1, n)),
    )
    rows, starts = Rows(*leaves), np.stack([np.zeros(4), np.ones(4)])  # type: ignore[arg-type]

    def run() -> list[Any]:
        _compiled.cache_clear()
        found = Compiled(model, rows).solve_many(Agp(), starts, [[0.1], [0.2]], UNROLLED + 3)
        return [part for one in found for part in (one.theta, one.history.loss)]

    expected = run()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    found = run()
    _compiled.cache_clear()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("classes", [2, 3])
def test_rounds_in_numpy_and_the_compiled_loop_find_the_same_model(classes: int) -> None:
    """`Pooled` solves Newton's rounds of logistic regression without a compiler."""
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(400, 3)), np.arange(400) % 2
    y = np.digitize(x[:, 0] + s + rng.logistic(size=400), [0.0, 2.0][: classes - 1])
    rows = Federation.of(x, y, s, np.arange(400) % 3, groups=2, classes=classes)
    problem = Problem(
        model=logistic_regression(3, classes), constraints=(PAIR,), epsilon=0.02,
        estimator="pooled", solver=Newton(), rounds=50, seed=0,
    )  # fmt: skip
    engine = Pooled(rows)
    plain = engine.solve(problem)
    compiled = solve_many([problem], [engine], [problem.epsilon])[0][0]
    assert plain.rounds == compiled.rounds
    a, b = (Plain(problem.model, one.theta).probabilities(x, s) for one in (plain, compiled))
    np.testing.assert_allclose(a, b, atol=1e-8)
