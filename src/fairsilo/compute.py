"""JAX, configured once: 64-bit floats are enabled, and LAPACK runs one thread per call.

All other modules import `jax` and `jnp` from here, so that no program is traced before 64-bit
floats are enabled. Arrays keep their type: the paper's AGP sweeps run in float32, everything else
in float64.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

# Many small factorisations of a Newton round run in parallel, and threads inside each compete for
# the cores (measured with one thread: 1.1 s, not 17 s, for 50 clients on a busy 2-core machine).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = jax.Array
P = ParamSpec("P")
T = TypeVar("T")


def one_by_one(function: Callable[P, T]) -> Callable[P, T]:
    """Make vmap of the function a loop over the batch on a CPU; elsewhere it stays one batch.

    jaxlib's LAPACK splits a batch over XLA's threads and waits for them in one of those threads:
    with as many programs at a time as there are threads, all deadlock. Also, XLA's batched product
    of small matrices is half as fast as a loop over them.
    """
    looped = jax.custom_batching.sequential_vmap(function)  # type: ignore[no-untyped-call]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        chosen: Callable[P, T] = looped if jax.default_backend() == "cpu" else function
        return chosen(*args, **kwargs)

    return call


def over_first_axis(function: Callable[..., T], *trees: Any) -> T:
    """Apply the function to every slice: in turn on a CPU, whose cache fits one, else at once."""
    if jax.default_backend() != "cpu":
        return jax.vmap(function)(*trees)
    each: T = jax.lax.map(lambda slices: function(*slices), trees)
    return each


QUICK = {"xla_cpu_use_fusion_emitters": False}
"""Compiler options of programs that run for few rounds on a CPU.

XLA's newer emitters spend most of such a program's total time on compiling. Without them Newton's
program compiles in a third of the time, and on ADULT a round takes no longer. Only solvers with
thousands of gradient rounds gain from them. The step between two queries to silos is so small that
it is compiled with these options for every solver.
"""


@cache
def quick_options() -> dict[str, bool] | None:
    """`QUICK` if the backend is a CPU and its compiler knows these options, else None."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return None
    return QUICK


def quickly_compiled(function: Callable[P, T], fixed: tuple[str, ...]) -> Callable[P, T]:
    """The function, compiled with `quick_options` when first called; `fixed` names static args."""

    @cache
    def compiled() -> Callable[P, T]:
        return jax.jit(function, static_argnames=fixed, compiler_options=quick_options())

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return compiled()(*args, **kwargs)

    return call


@one_by_one
def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@one_by_one
def solve_positive(matrix: Array, right: Array) -> Array:
    """The solution of matrix @ x = right for a positive definite matrix."""
    return jax.scipy.linalg.solve(matrix, right, assume_a="pos")


__all__ = [
    "Array",
    "eigh",
    "jax",
    "jnp",
    "one_by_one",
    "over_first_axis",
    "quick_options",
    "quickly_compiled",
    "solve_positive",
]
