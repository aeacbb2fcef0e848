"""The dual of the quadratic program against a general solver of the primal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fairsilo.compute import jax, jnp
from fairsilo.solver.subproblem import merit, solve_dual

COMPILED = jax.jit(solve_dual)


def solve(*numbers: npt.ArrayLike) -> np.ndarray:
    """In NumPy, as against silos; compiled it is the same."""
    found = solve_dual(*map(np.asarray, numbers))
    compiled = COMPILED(*map(jnp.asarray, numbers))
    np.testing.assert_allclose(compiled, found, rtol=1e-7, atol=1e-9)
    return np.asarray(found)


def program(seed: int, k: int, p: int = 5) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, p))
    return (
        root @ root.T + np.eye(p),
        rng.normal(size=p),
        rng.normal(size=(k, p)),
        rng.normal(size=k),
    )


def multipliers(b: np.ndarray, g: np.ndarray, j: np.ndarray, d: np.ndarray, epsilon, rho):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    inverse = np.linalg.inv(b)
    return solve(j @ inverse @ j.T, j @ inverse @ g - d, epsilon, rho, np.zeros(len(d)))


@given(st.integers(0, 10_000), st.floats(0.0, 1.0))
def test_one_constraint_is_the_closed_form(seed: int, epsilon: float) -> None:
    b, g, j, d = program(seed, 1)
    inverse = np.linalg.inv(b)
    free = d[0] + j[0] @ (-inverse @ g)  # linearised D after the unconstrained step
    want = 0.0
    if abs(free) > epsilon:
        want = (free - np.sign(free) * epsilon) / (j[0] @ inverse @ j[0])
    got = multipliers(b, g, j, d, np.array([epsilon]), 1e9)
    assert got[0] == pytest.approx(want, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_several_constraints_match_slsqp(seed: int) -> None:
    b, g, j, d = program(seed, 3)
    epsilon = np.full(3, 0.1)
    mu = multipliers(b, g, j, d, epsilon, 1e9)
    step = -np.linalg.solve(b, g + j.T @ mu)
    best = minimize(
        lambda t: g @ t + t @ b @ t / 2,
        np.zeros(5),
        jac=lambda t: g + b @ t,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda t, k=k: epsilon - k * (d + j @ t)} for k in (1, -1)
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(step, best.x, atol=1e-5)


def test_dependent_constraints_are_tolerated() -> None:
    """The three pairs of three groups: D_13 = D_12 + D_23, so Q is singular."""
    b, g, j, d = program(1, 2)
    j, d = np.vstack([j, j.sum(axis=0)]), np.append(d, d.sum())
    epsilon = np.full(3, 0.05)
    mu = multipliers(b, g, j, d, epsilon, 1e9)
    step = -np.linalg.solve(b, g + j.T @ mu)
    assert np.all(np.abs(d + j @ step) <= epsilon + 1e-8)


@pytest.mark.parametrize("k", [3, 20])
@pytest.mark.parametrize("rho", [1.0, 1e6])
@pytest.mark.parametrize("start", [0.0, 0.3])
def test_more_constraints_than_parameters(k: int, rho: float, start: float) -> None:
    """Against L-BFGS-B on the dual split into positive and negative parts, from any start."""
    b, g, j, d = program(k, k)
    inverse = np.linalg.inv(b)
    q, linear, epsilon = j @ inverse @ j.T, j @ inverse @ g - d, np.full(k, 0.01)

    def split(z: np.ndarray) -> tuple[float, np.ndarray]:
        mu = z[:k] - z[k:]
        slope = q @ mu + linear
        value = mu @ q @ mu / 2 + linear @ mu + epsilon @ (z[:k] + z[k:])
        return value, np.concatenate([slope + epsilon, epsilon - slope])

    best = minimize(
        split,
        np.zeros(2 * k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, rho)] * (2 * k),
        options={"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-10},
    )
    numbers = (q, linear, epsilon, rho, np.full(k, start))
    # With so many constraints several multipliers are best, so that both need not find the same.
    for mu in (solve_dual(*map(np.asarray, numbers)), COMPILED(*map(jnp.asarray, numbers))):
        assert np.all(np.abs(mu) <= rho)
        value = split(np.concatenate([np.maximum(mu, 0), np.maximum(-mu, 0)]))[0]
        assert value <= best.fun + 1e-9 * (1 + abs(best.fun))


def test_contradicting_constraints_stay_finite() -> None:
    """Two constraints with one gradient and contradictory values: the elastic mode pays rho."""
    b, g, j, _ = program(2, 1)
    j, d = np.vstack([j, j]), np.array([1.0, -1.0])
    mu = multipliers(b, g, j, d, np.zeros(2), 50.0)
    assert np.all(np.isfinite(mu))
    assert np.max(np.abs(mu)) == pytest.approx(50.0)


def test_merit_counts_only_what_exceeds_epsilon() -> None:
    d, epsilon = jnp.array([0.3, -0.2, 0.05]), jnp.array([0.1, 0.1, 0.1])
    assert float(merit(jnp.array(1.0), d, epsilon, jnp.array(2.0))) == pytest.approx(1.6)
