"""JAX, set up once: 64-bit floats are available, and LAPACK runs one thread per call.

Every part that computes imports `jax` and `jnp` from here, so that nobody can
trace a program before the switch is set. Arrays keep the type they come with:
the paper's AGP sweeps run in float32, everything else in float64.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

# The small factorisations of a Newton round run many at a time; threads inside each of them only
# fight over the cores (measured: 1.1 s instead of 17 s for 50 clients on a busy 2-core machine).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = jax.Array
P = ParamSpec("P")
T = TypeVar("T")


def one_by_one(function: Callable[P, T]) -> Callable[P, T]:
    """On a CPU, under vmap: a loop over the batch; elsewhere the batch at once.

    jaxlib's LAPACK deals a batch out to XLA's threads and waits for them in one of those threads:
    as many programs at a time as there are threads, and all wait for ever. And XLA's product of
    many small matrices is half as fast as one after the other.
    """
    looped = jax.custom_batching.sequential_vmap(function)  # type: ignore[no-untyped-call]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        chosen: Callable[P, T] = looped if jax.default_backend() == "cpu" else function
        return chosen(*args, **kwargs)

    return call


def over_first_axis(function: Callable[..., T], *trees: Any) -> T:
    """The function of every slice: in turn on a CPU, whose caches hold one, else at once."""
    if jax.default_backend() != "cpu":
        return jax.vmap(function)(*trees)
    each: T = jax.lax.map(lambda slices: function(*slices), trees)
    return each


QUICK = {"xla_cpu_use_fusion_emitters": False}
"""Compiler options of programs that run for few rounds on a CPU.

XLA's newer emitters take most of the time that such a program takes from start to end. Without
them Newton's is compiled in a third of the time, and on ADULT a round takes no longer; only rounds
of gradients, of which there are thousands, pay for themselves. The step between two questions to
silos is so small that any solver's is compiled so.
"""


@cache
def quick_options() -> dict[str, bool] | None:
    """`QUICK`, where there is a CPU and its compiler knows them."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=QUICK)()
    except jax.errors.JaxRuntimeError:
        return None
    return QUICK


def quickly_compiled(function: Callable[P, T], fixed: tuple[str, ...]) -> Callable[P, T]:
    """The function compiled with `quick_options`, once it is called; `fixed` are static."""

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
