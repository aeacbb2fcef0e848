"""JAX, set up once: 64-bit floats are available, and LAPACK runs one thread per call.

Every part that computes imports `jax` and `jnp` from here, so that nobody can
trace a program before the switch is set. Arrays keep the type they come with:
the paper's AGP sweeps run in float32, everything else in float64.
"""

import os
from collections.abc import Callable
from typing import Any

# The small factorisations of a Newton round run many at a time; threads inside each of them only
# fight over the cores (measured: 1.1 s instead of 17 s for 50 clients on a busy 2-core machine).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = jax.Array


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return _one_by_one(_eigh)(matrix)  # type: ignore[no-any-return]


def solve_positive(matrix: Array, right: Array) -> Array:
    """The solution of matrix @ x = right for a positive definite matrix."""
    return _one_by_one(_solve_positive)(matrix, right)  # type: ignore[no-any-return]


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """On a CPU, under vmap: a loop instead of jaxlib's batch.

    jaxlib's LAPACK deals a batch out to XLA's threads and waits for them in one of those threads:
    as many programs at a time as there are threads, and all wait for ever.
    """
    return _LOOPED[function] if jax.default_backend() == "cpu" else function


def _eigh(matrix: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


def _solve_positive(matrix: Array, right: Array) -> Array:
    return jax.scipy.linalg.solve(matrix, right, assume_a="pos")


_LOOPED = {
    function: jax.custom_batching.sequential_vmap(function)  # type: ignore[no-untyped-call]
    for function in (_eigh, _solve_positive)
}

__all__ = ["Array", "eigh", "jax", "jnp", "solve_positive"]
