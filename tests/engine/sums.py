"""The sums, compiled as in the engines: otherwise every operation is compiled separately."""

from fairsilo.compute import jax
from fairsilo.engine import local_sums, row_sums

compiled_sums = jax.jit(row_sums, static_argnames=("model", "order", "measure"))
compiled_local = jax.jit(local_sums, static_argnames=("model", "order"))
