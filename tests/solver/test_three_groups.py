"""Three groups on ADULT: races, the small ones pooled; K = 3 constraints, linearly dependent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from fairsilo.coded import dense
from fairsilo.data.groups import POOLED
from fairsilo.method.fedfair import fedfair
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.solver import Status
from tests.engine.sums import weighted_rows
from tests.solver.test_optimum import every_tenth

EPSILON = 0.01


@pytest.mark.slow
def test_newton_agrees_with_slsqp_within_twenty_rounds() -> None:
    options = Options(data="adult", group="race", pool=100, epsilon=EPSILON)
    prepared = prepare(options)
    assert prepared.groups == ("Black", "White", POOLED)
    got = fedfair(plan(options, prepared), prepared.engine(options)).outcome
    assert got.status is Status.CONVERGED
    assert got.rounds <= 20
    assert np.abs(got.last.d).max() <= EPSILON + 1e-6
    # At least one constraint is active, or the comparison would be trivial.
    assert np.abs(got.last.mu).max() > 1e-3

    # SLSQP, which has only gradients, gets a tenth of the rows and starts at zero.
    few = every_tenth(prepared)
    problem = plan(options, few)
    got = fedfair(problem, few.engine(options)).outcome
    assert got.status is Status.CONVERGED
    assert np.abs(got.last.mu).max() > 1e-3
    rows = weighted_rows(few.federation, problem.constraints, problem.estimator)
    x = np.hstack([np.ones((len(rows.y), 1)), dense(rows.x)])
    sign = np.where(np.asarray(rows.y) == 1, 1.0, -1.0)

    def value(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ np.logaddexp(0, -sign * (x @ theta)))

    def slope(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray((weights * (expit(x @ theta) - (sign == 1))) @ x)

    w, v = np.asarray(rows.w), np.asarray(rows.v)
    both = np.vstack([v, -v])
    best = minimize(
        value, np.zeros(x.shape[1]), args=(w,), jac=slope, method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda t: EPSILON - value(t, both),
            "jac": lambda t: -slope(t, both),
        },
        options={"maxiter": 1000, "ftol": 1e-10},
    )  # fmt: skip
    assert np.abs(value(best.x, v)).max() <= EPSILON + 1e-5
    assert float(got.last.loss) == pytest.approx(best.fun, abs=1e-5)
    assert np.abs(got.last.d).max() <= EPSILON + 1e-6
