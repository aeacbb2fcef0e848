"""`clientwise`: a loop over silos, each of which answers for its own rows.

Slower than `pooled` and the same numbers. What a silo is about to send passes through
`release`, where a privacy step (clipping, noise, refusal) can act on it, before it is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from operator import add

import numpy as np
import numpy.typing as npt

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine.base import Outcome, Watch
from fairsilo.engine.loop import drive
from fairsilo.engine.sums import Measure, Rows, row_sums
from fairsilo.model.base import Model
from fairsilo.solver.base import Order, Query, Solver, Sums

Release = Callable[[int, Sums], Sums]
"""What silo number i does to its message before it leaves."""


def send_as_is(silo: int, message: Sums) -> Sums:
    """The plain mode: nothing is done to the message."""
    return message


_answer = jax.jit(row_sums, static_argnames=("model", "order", "measure"))


class Clientwise:
    """Answers queries silo by silo; `offsets` says where each silo's rows begin and end."""

    def __init__(
        self,
        model: Model,
        rows: Rows,
        offsets: Sequence[int] | npt.NDArray[np.int64],
        release: Release = send_as_is,
        local: bool = False,
        measure: Measure = "loss",
    ) -> None:
        self.model = model
        self.measure: Measure = measure
        self.local = local
        self.release = release
        self.silos = [padded(rows, start, stop) for start, stop in pairwise(offsets)]

    def answer(self, query: Query, order: Order) -> Sums:
        """The sum of what the silos release; under `local`, each D_k stays its silo's own."""
        if not self.local:
            return reduce(add, (self._message(i, query, order) for i in range(len(self.silos))))
        own = [Query(query.theta, mu) for mu in query.mu.reshape(len(self.silos), -1)]
        messages = [self._message(i, asked, order) for i, asked in enumerate(own)]
        total, jac = reduce(add, messages), None
        if total.jac is not None:
            jac = jnp.concatenate([m.jac for m in messages if m.jac is not None])
        return replace(total, d=jnp.concatenate([m.d for m in messages]), jac=jac)

    def _message(self, i: int, query: Query, order: Order) -> Sums:
        """What silo number i sends."""
        answered = _answer(self.model, order, self.silos[i], query, self.measure)
        return self.release(i, answered)

    def solve(
        self,
        solver: Solver,
        theta0: npt.ArrayLike,
        epsilon: npt.ArrayLike,
        rounds: int,
        watch: Watch | None = None,
    ) -> Outcome:
        """One run: theta0 (p,), epsilon (K,)."""
        return drive(solver, self.answer, theta0, epsilon, rounds, watch)


def padded(rows: Rows, start: int, stop: int) -> Rows:
    """A silo's rows, filled up with rows of weight zero to a power of two.

    Silos of any size then share a few compiled programs instead of one each.
    """
    size = int(stop - start)
    extra = (1 << max(size - 1, 0).bit_length()) - size
    cast = partial(jnp.asarray, dtype=jnp.float64)

    def lay(leaf: Array) -> Array:
        part = np.pad(np.asarray(leaf[start:stop]), ((0, extra), (0, 0)))
        return jnp.asarray(part) if np.issubdtype(part.dtype, np.integer) else cast(part)

    return Rows(
        jax.tree.map(lay, rows.x),
        jnp.asarray(np.pad(np.asarray(rows.y[start:stop]), (0, extra)), jnp.int32),
        cast(np.pad(np.asarray(rows.w[start:stop]), (0, extra))),
        cast(np.pad(np.asarray(rows.v[:, start:stop]), ((0, 0), (0, extra)))),
    )
