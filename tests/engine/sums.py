"""The sums compiled, as engines ask for them: else every operation is a program of its own."""

from fairsilo.compute import jax
from fairsilo.engine import local_sums, row_sums

compiled_sums = jax.jit(row_sums, static_argnames=("model", "order", "measure"))
compiled_local = jax.jit(local_sums, static_argnames=("model", "order"))
