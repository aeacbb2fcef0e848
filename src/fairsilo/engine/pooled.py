"""`pooled`: all silos' rows in one array, many rounds and many runs in one XLA program.

Because a round is a weighted sum over rows, nobody needs to know where one silo ends and
the next begins. Runs that differ in epsilon, in starting point or in row weights share x, so
that R runs make one matrix product with R columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import jax, jnp
from fairsilo.engine.base import Outcome, Watch
from fairsilo.engine.sums import Measure, Rows, local_sums, row_sums
from fairsilo.model.base import Model
from fairsilo.solver.base import Order, Query, Record, Solver, Status, Sums, choose, done

Answer = Callable[[Rows, Query], Sums]

CHUNK = {Order.LAGRANGIAN: 500, Order.FIRST: 10, Order.SECOND: 1}
"""Rounds per call of the compiled loop: often enough to show progress, no oftener."""


class Pooled:
    """Answers queries from rows in this process; solves one run or many.

    With `local` the rows have a leading axis of silos (see `stack_silos`), and the constraints
    are every silo's own.
    """

    def __init__(
        self,
        model: Model,
        rows: Rows,
        dtype: npt.DTypeLike = np.float64,
        local: bool = False,
        measure: Measure = "loss",
    ) -> None:
        self.model = model
        self.measure: Measure = measure
        self.dtype = np.dtype(dtype)
        self.local = local
        cast = partial(jnp.asarray, dtype=self.dtype)
        self.rows = Rows(cast(rows.x), jnp.asarray(rows.y, jnp.int32), cast(rows.w), cast(rows.v))

    def solve(
        self,
        solver: Solver,
        theta0: npt.ArrayLike,
        epsilon: npt.ArrayLike,
        rounds: int,
        watch: Watch | None = None,
    ) -> Outcome:
        """One run: theta0 (p,), epsilon (K,)."""
        theta0, epsilon = np.asarray(theta0), np.asarray(epsilon)
        return self.solve_many(solver, theta0[None], epsilon[None], rounds, watch)[0]

    def solve_many(
        self,
        solver: Solver,
        theta0: npt.ArrayLike,
        epsilon: npt.ArrayLike,
        rounds: int,
        watch: Watch | None = None,
        thin: bool = False,
    ) -> list[Outcome]:
        """R runs at once: theta0 (R, p), epsilon (R, K).

        What of the rows (all of x, y, w and v, or only weights) has a leading axis S are S
        tables, each for the next R / S runs; the rest is shared. `watch` sees the first run.
        A `thin` history has one record for each call of the compiled loop, not one a round.
        """
        cast = partial(jnp.asarray, dtype=self.dtype)
        state = jax.vmap(solver.init)(cast(theta0), cast(epsilon))
        chunk = CHUNK[solver.order]
        logs: list[Record] = []
        taken = 0
        while taken < rounds and not bool(jnp.all(done(state))):
            size = min(chunk, rounds - taken)
            state, log = _advance(
                solver, self.model, size, self.local, thin, self.rows, state, self.measure
            )
            logs.append(jax.tree.map(np.asarray, log))
            taken += size
            if watch:
                watch(int(jnp.max(state.k)), jax.tree.map(lambda leaf: leaf[-1, 0], logs[-1]))
        history = jax.tree.map(lambda *leaves: np.concatenate(leaves), *logs)
        state = jax.tree.map(np.asarray, state)
        kept = -(-state.k // chunk) if thin else state.k
        return [_outcome(state, history, run, kept[run]) for run in range(len(state.k))]


@partial(jax.jit, static_argnames=("solver", "model", "size", "local", "thin", "measure"))
def _advance(
    solver: Solver,
    model: Model,
    size: int,
    local: bool,
    thin: bool,
    rows: Rows,
    state: Any,
    measure: Measure = "loss",
) -> tuple[Any, Record]:
    """`size` rounds of every run that is not done, and their records (the last, if thin).

    The number of rounds is known when the program is compiled, so that a GPU need not report to
    the host after each of them.
    """
    one = partial(local_sums if local else row_sums, model, solver.order, measure=measure)
    answer = _answer_all(one, local)

    def one_round(state: Any, _: None) -> tuple[Any, Record | None]:
        asked = jax.vmap(solver.query)(state)
        stepped = jax.vmap(solver.step)(state, answer(rows, asked))
        state = jax.vmap(choose)(done(state), state, stepped)
        return state, None if thin else state.record

    state, log = jax.lax.scan(one_round, state, length=size)
    last: Record = jax.tree.map(lambda leaf: leaf[None], state.record)
    return state, last if log is None else log


def _answer_all(answer: Answer, local: bool) -> Answer:
    """Answer the queries of R runs. Rows with a leading axis S serve R / S runs in a row each."""
    silos = int(local)

    def answer_all(rows: Rows, queries: Query) -> Sums:
        own = [
            leaf.ndim > plain + silos
            for leaf, plain in zip(rows.leaves(), (2, 1, 1, 2), strict=True)
        ]
        if not any(own):
            return jax.vmap(answer, in_axes=(None, 0))(rows, queries)
        tables = next(leaf.shape[0] for leaf, mine in zip(rows.leaves(), own, strict=True) if mine)
        axes = Rows(*(0 if mine else None for mine in own))  # type: ignore[arg-type]
        shape = (tables, queries.theta.shape[0] // tables)
        split = jax.tree.map(lambda q: q.reshape(*shape, *q.shape[1:]), queries)
        sums = jax.vmap(jax.vmap(answer, in_axes=(None, 0)), in_axes=(axes, 0))(rows, split)
        flat: Sums = jax.tree.map(
            lambda leaf: leaf.reshape(shape[0] * shape[1], *leaf.shape[2:]), sums
        )
        return flat

    return answer_all


def _outcome(state: Any, history: Record, run: int, kept: int) -> Outcome:
    mine = replace(history, **{k: leaf[:kept, run] for k, leaf in vars(history).items()})
    theta = np.asarray(state.theta[run], np.float64)
    return Outcome(theta, Status(int(state.status[run])), int(state.k[run]), mine)
