"""JAX, configured once: 64-bit floats are enabled, and LAPACK runs one thread per call.

All other modules import `jax` and `jnp` from here, so that no program is traced before 64-bit
floats are enabled. Arrays keep their type: the paper's AGP sweeps run in float32, everything else
in float64.
"""

import hashlib
import os
import platform
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

# Many small factorisations of a Newton round run in parallel, and threads inside each compete for
# the cores (measured with one thread: 1.1 s, not 17 s, for 50 clients on a busy 2-core machine).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

CACHE = "FAIRSILO_CACHE"
"""The environment variable that names the folder of compiled programs; `off` for none."""


def _keep_programs() -> None:
    """Programs are compiled once per machine: the next command finds them in the user's cache.

    A program is for one kind of processor, so its features are in the folder's name. A folder that
    cannot be written is not used.
    """
    place = os.environ.get(CACHE) or "~/.cache/fairsilo"
    if place == "off" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    with suppress(OSError, RuntimeError):
        known = Path("/proc/cpuinfo")
        lines = known.read_text().splitlines() if known.exists() else [platform.processor()]
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])
        kind = hashlib.sha256(f"{jax.__version__} {flags}".encode()).hexdigest()[:16]
        folder = Path(place).expanduser() / f"programs-{kind}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Programs are run as they lie there: whoever owns the folder owns the process.
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            broken = "Error (reading|writing) persistent compilation cache"
            warnings.filterwarnings("ignore", broken)
            jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)  # type: ignore[no-untyped-call]
            jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # type: ignore[no-untyped-call]


_keep_programs()

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
def solve_bent(matrix: Array, damping: Array, ridge: Array, right: Array) -> Array:
    """(|H| + (damping + ridge) * largest * I)^-1 right, |H| being H with absolute eigenvalues.

    Where H has no negative eigenvalue beyond rounding it is its own |H|, and Cholesky's factors
    suffice: a tenth of the work of the eigenvectors.
    """
    largest = _largest(matrix)
    eye = jnp.eye(len(matrix), dtype=matrix.dtype)
    positive = jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix + ridge * largest * eye)))

    def factored(_: None) -> Array:
        return solve_positive(matrix + (damping + ridge) * largest * eye, right)

    def turned(_: None) -> Array:
        values, vectors = eigh(matrix)
        size = jnp.abs(values)
        bent = size + (damping + ridge) * jnp.max(size) + 1e-300
        return vectors @ ((vectors.T @ right) / bent[:, None])

    solution: Array = jax.lax.cond(positive, factored, turned, None)
    return solution


def _largest(matrix: Array) -> Array:
    """The largest absolute eigenvalue, to within a few percent, by power iteration."""
    # Not ones: with an output per class they are in the null space of the Hessian.
    start = 1 + jnp.cos(jnp.arange(len(matrix), dtype=matrix.dtype))

    def turn(_: int, vector: Array) -> Array:
        image = matrix @ vector
        return image / jnp.maximum(jnp.linalg.norm(image), 1e-300)

    vector = jax.lax.fori_loop(0, 30, turn, start / jnp.linalg.norm(start))
    norm: Array = jnp.linalg.norm(matrix @ vector)
    return norm


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
    "solve_bent",
    "solve_positive",
]
