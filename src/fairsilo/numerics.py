"""What NumPy and JAX both compute: solvers are written in it.

The plain loop against silos runs in NumPy, which needs neither JAX nor a compiler; a loop that is
compiled with the sums over rows runs in JAX. Which of the two follows from the arrays.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from fairsilo.arrays import Array

P = ParamSpec("P")
T = TypeVar("T")
TURNS = 30
"""Of the power iteration, which then is within a few percent."""


def library(array: Array) -> Any:
    """NumPy for its own arrays, else jax.numpy."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    from fairsilo.compute import jnp

    return jnp


def accelerated() -> bool:
    """Whether JAX has another device than the CPU; loads JAX only where there may be one."""
    if sys.modules.get("jax") is None:
        plugins = ("jax_plugins", "libtpu")
        if os.environ.get("JAX_PLATFORMS") == "cpu" or not any(map(_installed, plugins)):
            return False
    from fairsilo.compute import jax

    return bool(jax.default_backend() != "cpu")


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def put(array: Array, index: Any, value: Any) -> Array:
    """The array with another value there."""
    if library(array) is not np:
        return array.at[index].set(value)
    changed = array.copy()
    changed[index] = value
    return changed


def repeated(xp: Any, count: int, body: Callable[[Any, T], T], value: T) -> T:
    """body(i, value) for i = 0 .. count - 1."""
    if xp is not np:
        from fairsilo.compute import jax

        last: T = jax.lax.fori_loop(0, count, body, value)
        return last
    for i in range(count):
        value = body(i, value)
    return value


def repeated_while(xp: Any, condition: Callable[[T], Any], body: Callable[[T], T], value: T) -> T:
    """body(value) as long as the condition holds."""
    if xp is not np:
        from fairsilo.compute import jax

        last: T = jax.lax.while_loop(condition, body, value)
        return last
    while condition(value):
        value = body(value)
    return value


def either(xp: Any, condition: Any, yes: Callable[[], T], no: Callable[[], T]) -> T:
    """yes() where the condition holds, else no()."""
    if xp is not np:
        from fairsilo.compute import jax

        found: T = jax.lax.cond(condition, yes, no)
        return found
    return yes() if condition else no()


def factorised(function: Callable[P, T]) -> Callable[P, T]:
    """A function of a matrix that is called for one matrix at a time (`compute.one_by_one`)."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if library(args[0]) is np:
            return function(*args, **kwargs)
        from fairsilo.compute import one_by_one

        return one_by_one(function)(*args, **kwargs)

    return call


@factorised
def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    values, vectors = library(matrix).linalg.eigh(matrix)
    return values, vectors


@factorised
def solve_bent(matrix: Array, damping: Array, ridge: Array, right: Array) -> Array:
    """(|H| + (damping + ridge) * largest * I)^-1 right, |H| being H with absolute eigenvalues.

    Where H has no negative eigenvalue beyond rounding it is its own |H|, and Cholesky's factors
    suffice: a tenth of the work of the eigenvectors.
    """
    xp, largest = library(matrix), _largest(matrix)
    eye = xp.eye(len(matrix), dtype=matrix.dtype)

    def factored() -> Array:
        return solve_positive(matrix + (damping + ridge) * largest * eye, right)

    def turned() -> Array:
        values, vectors = eigh(matrix)
        size = xp.abs(values)
        bent = size + (damping + ridge) * xp.max(size) + 1e-300
        return vectors @ ((vectors.T @ right) / bent[:, None])

    return either(xp, _positive(matrix + ridge * largest * eye), factored, turned)


def _positive(matrix: Array) -> Array:
    """Whether the matrix has Cholesky's factors."""
    xp = library(matrix)
    try:
        return xp.all(xp.isfinite(xp.linalg.cholesky(matrix)))
    except np.linalg.LinAlgError:
        return False


def _largest(matrix: Array) -> Array:
    """The largest absolute eigenvalue, to within a few percent, by power iteration."""
    xp = library(matrix)
    # Not ones: with an output per class they are in the null space of the Hessian.
    start = 1 + xp.cos(xp.arange(len(matrix), dtype=matrix.dtype))

    def turn(_: Any, vector: Array) -> Array:
        image = matrix @ vector
        return image / xp.maximum(xp.linalg.norm(image), 1e-300)

    vector = repeated(xp, TURNS, turn, start / xp.linalg.norm(start))
    return xp.linalg.norm(matrix @ vector)


@factorised
def solve_positive(matrix: Array, right: Array) -> Array:
    """The solution of matrix @ x = right for a positive definite matrix."""
    if library(matrix) is np:
        return np.linalg.solve(matrix, right)
    from fairsilo.compute import jax

    return jax.scipy.linalg.solve(matrix, right, assume_a="pos")
