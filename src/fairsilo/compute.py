"""JAX, configured once: 64-bit floats are enabled.

All other modules import `jax` and `jnp` from here, so that no program is traced before 64-bit
floats are enabled; those that can do without JAX do so in the functions that need it. Arrays keep
their type: the paper's AGP sweeps run in float32, everything else in float64.
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

import jax
import jax.numpy as jnp

from fairsilo.arrays import tell_of_traced

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
tell_of_traced(jax.tree_util.register_dataclass)

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
thousands of gradient rounds gain from them.
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


__all__ = [
    "Array",
    "jax",
    "jnp",
    "one_by_one",
    "over_first_axis",
    "quick_options",
]
