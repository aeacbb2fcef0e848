"""JAX, set up once: 64-bit floats are available, and LAPACK runs one thread per call.

Every part that computes imports `jax` and `jnp` from here, so that nobody can
trace a program before the switch is set. Arrays keep the type they come with:
the paper's AGP sweeps run in float32, everything else in float64.
"""

import os

# The small factorisations of a Newton round run many at a time; threads inside each of them only
# fight over the cores (measured: 1.1 s instead of 17 s for 50 clients on a busy 2-core machine).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]

Array = jax.Array

__all__ = ["Array", "jax", "jnp"]
