"""The fast solvers reach the exact constrained optimum, as found by SciPy's SLSQP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from fairsilo.coded import dense
from fairsilo.fairness import Estimator
from fairsilo.model import logistic_regression, mlp
from fairsilo.partition.federation import Federation
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.solver import Agp, Lbfgs, Newton, Status
from fairsilo.sums import Compiled, Rows
from tests.engine.sums import weighted_rows

pytestmark = pytest.mark.slow
Folder = Callable[[str], Path | None]
ROUNDS = {"adult": 12, "compas": 8, "drug": 8}
EPSILONS = (1e-4, 0.01, 0.1)


def prepared_of(name: str, folder: Path | None, seed: int = 0) -> Prepared:
    return prepare(Options(data=name, data_dir=folder, seed=seed, estimator="mean"))


def rows_of(prepared: Prepared, estimator: Estimator) -> Rows:
    return weighted_rows(prepared.federation, prepared.constraints, estimator)


def every_tenth(prepared: Prepared) -> Prepared:
    """A tenth of every client's rows: few enough for SLSQP to converge from zero."""
    whole = prepared.federation
    client = np.repeat(np.arange(whole.clients), np.diff(whole.offsets))
    rows = slice(None, None, 10)
    few = Federation.of(
        whole.x[rows], whole.y[rows], whole.s[rows], client[rows],
        groups=whole.groups, classes=whole.classes,
    )  # fmt: skip
    return replace(prepared, federation=few)


def slsqp(rows: Rows, epsilon: float) -> tuple[float, float]:
    """Loss and D at SLSQP's optimum, started at zero, from separate NumPy formulas."""
    x = np.hstack([dense(rows.x), np.ones((len(rows.y), 1))])
    y, w, v = (np.asarray(a) for a in (rows.y, rows.w, rows.v))
    sign = np.where(y == 1, 1.0, -1.0)

    def value(theta: np.ndarray, weights: np.ndarray) -> float:
        return float(weights @ np.logaddexp(0, -sign * (x @ theta)))

    def slope(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        result: np.ndarray = x.T @ (weights * (expit(x @ theta) - (y == 1)))
        return result

    constraints = [
        {
            "type": "ineq",
            "fun": lambda t, k=k: epsilon - k * value(t, v[0]),
            "jac": lambda t, k=k: -k * slope(t, v[0]),
        }
        for k in (1, -1)
    ]
    best = minimize(
        value,
        np.zeros(x.shape[1]),
        args=(w,),
        jac=slope,
        method="SLSQP",
        constraints=constraints,
        options={"maxiter": 1000, "ftol": 1e-10},
    )
    return value(best.x, w), value(best.x, v[0])


@pytest.mark.parametrize("estimator", ["mean", "pooled"])
@pytest.mark.parametrize("name", ["drug", "compas", "adult"])
def test_newton_reaches_slsqp(name: str, estimator: Estimator, data_dir_of: Folder) -> None:
    prepared = prepared_of(name, data_dir_of(name))
    # With all rows of ADULT SLSQP needs minutes from zero, so it gets a tenth of them.
    rows = rows_of(every_tenth(prepared) if name == "adult" else prepared, estimator)
    model = logistic_regression(rows.x.shape[1])
    engine = Compiled(model, rows)
    for epsilon in EPSILONS:
        got = engine.solve(Newton(), model.start(0), [epsilon], ROUNDS[name])
        assert got.status is Status.CONVERGED
        loss, d = slsqp(rows, epsilon)
        assert abs(d) <= epsilon + 1e-5, "the reference itself must be feasible"
        assert float(got.last.loss) == pytest.approx(loss, abs=1e-5)
        assert abs(float(got.last.d[0])) <= epsilon + 1e-5


@pytest.mark.parametrize("estimator", ["mean", "pooled"])
def test_newton_needs_few_rounds_on_adult(estimator: Estimator) -> None:
    rows = rows_of(prepared_of("adult", None), estimator)
    model = logistic_regression(rows.x.shape[1])
    starts = np.stack([model.start(0)] * len(EPSILONS))
    many = Compiled(model, rows).solve_many(
        Newton(), starts, np.array(EPSILONS)[:, None], ROUNDS["adult"]
    )
    for epsilon, got in zip(EPSILONS, many, strict=True):
        assert got.status is Status.CONVERGED
        assert abs(float(got.last.d[0])) <= epsilon + 1e-5


@pytest.mark.parametrize("kind", ["iid", "skewed"])
@pytest.mark.parametrize("name", ["drug", "compas"])
def test_newton_needs_few_rounds_on_every_split(name: str, kind: str, data_dir_of: Folder) -> None:
    folder = data_dir_of(name)
    for seed in range(5):
        options = Options(data=name, data_dir=folder, seed=seed, partition=kind)
        rows = rows_of(prepare(options), "mean")
        model = logistic_regression(rows.x.shape[1])
        starts = np.stack([model.start(0)] * len(EPSILONS))
        many = Compiled(model, rows).solve_many(
            Newton(), starts, np.array(EPSILONS)[:, None], ROUNDS[name]
        )
        assert all(one.status is Status.CONVERGED for one in many)


@pytest.mark.parametrize("name", ["drug", "compas"])
def test_agp_reaches_its_own_fixed_point(name: str, data_dir_of: Folder) -> None:
    rows = rows_of(prepared_of(name, data_dir_of(name)), "mean")
    model = logistic_regression(rows.x.shape[1])
    epsilons = np.array(EPSILONS)[:, None]
    starts = np.stack([model.start(0)] * len(epsilons))
    agp = Compiled(model, rows, np.float32).solve_many(Agp(), starts, epsilons, 20_000)
    best = Compiled(model, rows).solve_many(Newton(), starts, epsilons, 12)
    for epsilon, slow, fast in zip(EPSILONS, agp, best, strict=True):
        assert float(slow.last.loss) == pytest.approx(float(fast.last.loss), abs=1e-4)
        mu = float(slow.last.mu[0])
        if mu != 0:
            assert abs(float(slow.last.d[0])) == pytest.approx(
                epsilon + Agp().gamma * abs(mu), abs=2e-5
            )


@pytest.mark.long
def test_agp_on_adult_is_still_above_the_optimum_after_20000_rounds() -> None:
    rows = rows_of(prepared_of("adult", None), "mean")
    model = logistic_regression(rows.x.shape[1])
    slow = Compiled(model, rows, np.float32).solve(Agp(), model.start(0), [0.1], 20_000)
    fast = Compiled(model, rows).solve(Newton(), model.start(0), [0.1], 12)
    gap = float(slow.last.loss) - float(fast.last.loss)
    assert 0 < gap < 2e-3
    assert slow.status is Status.RUNNING


def test_lbfgs_on_adult_within_120_rounds() -> None:
    rows = rows_of(prepared_of("adult", None), "mean")
    model = logistic_regression(rows.x.shape[1])
    engine = Compiled(model, rows)
    for epsilon in EPSILONS:
        best = engine.solve(Newton(), model.start(0), [epsilon], 12)
        got = engine.solve(Lbfgs(), model.start(0), [epsilon], 120)
        assert got.status is Status.CONVERGED
        assert float(got.last.loss) <= float(best.last.loss) + 1e-4
        assert float(got.last.violation) <= 3e-5


@pytest.mark.parametrize(
    ("name", "epsilon", "agp_loss"),
    [("compas", 0.1, 0.592), ("drug", 0.01, 0.412)],
)
def test_gauss_newton_beats_agp_on_the_network(
    name: str, epsilon: float, agp_loss: float, data_dir_of: Folder
) -> None:
    losses = []
    for seed in range(5):
        rows = rows_of(prepared_of(name, data_dir_of(name), seed), "mean")
        model = mlp(rows.x.shape[1])
        got = Compiled(model, rows).solve(Newton(), model.start(seed), [epsilon], 150)
        assert float(got.last.violation) <= 1e-3
        losses.append(float(got.last.loss))
    assert np.mean(losses) <= agp_loss
