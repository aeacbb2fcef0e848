"""Rows over several devices: each sums its own rows, and the sums are added.

The same idea once more: a round is a sum over rows, so a device is to the table what a silo is to
the federation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fairsilo.compute import jax, jnp
from fairsilo.solver.base import Query, Sums
from fairsilo.sums.rows import Answer, Rows


def mesh_of_all() -> Mesh | None:
    """All devices of this process in one line; None where there is but one."""
    devices = jax.devices()
    return Mesh(np.array(devices), ("rows",)) if len(devices) > 1 else None


def spread(rows: Rows, mesh: Mesh) -> Rows:
    """The rows dealt out to the devices; rows of weight zero make the shares equal."""
    extra = -rows.y.shape[-1] % mesh.size

    def lay(axis: int, leaf: Any) -> Any:
        padding = [(0, 0)] * leaf.ndim
        padding[axis] = (0, extra)
        sharding = NamedSharding(mesh, _spec(axis, leaf))
        return jax.device_put(jnp.pad(leaf, padding), sharding)

    return rows.along(lay)


def over_devices(answer: Answer, mesh: Mesh) -> Answer:
    """The answer of all devices: the sum of each one's answer over its own rows."""

    def own(rows: Rows, queries: Query) -> Sums:
        sums: Sums = jax.tree.map(partial(jax.lax.psum, axis_name="rows"), answer(rows, queries))
        return sums

    def summed(rows: Rows, queries: Query) -> Sums:
        whole = PartitionSpec()  # type: ignore[no-untyped-call]
        specs = (rows.along(_spec), whole)
        everywhere = jax.shard_map(own, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)
        sums: Sums = everywhere(rows, queries)
        return sums

    return summed


def _spec(axis: int, leaf: Any) -> PartitionSpec:
    names: list[str | None] = [None] * leaf.ndim
    names[axis] = "rows"
    return PartitionSpec(*names)  # type: ignore[no-untyped-call]
