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

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine.base import Outcome, Watch
from fairsilo.engine.sums import Rows, local_sums, row_sums
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
    ) -> None:
        self.model = model
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
    ) -> list[Outcome]:
        """R runs at once: theta0 (R, p), epsilon (R, K).

        What of the rows (all of x, y, w and v, or only weights) has a leading axis S are S
        tables, each for the next R / S runs; the rest is shared. `watch` sees the first run.
        """
        cast = partial(jnp.asarray, dtype=self.dtype)
        state = jax.vmap(solver.init)(cast(theta0), cast(epsilon))
        chunk = CHUNK[solver.order]
        logs: list[Record] = []
        taken = 0
        while taken < rounds and not bool(jnp.all(done(state))):
            size = min(chunk, rounds - taken)
            state, log, count = _advance(
                solver, self.model, chunk, self.local, self.rows, state, size
            )
            log = jax.tree.map(lambda leaf, n=int(count): np.asarray(leaf)[:n], log)
            logs.append(log)
            taken += int(count)
            if watch:
                watch(taken, jax.tree.map(lambda leaf: leaf[-1, 0], log))
        history = jax.tree.map(lambda *leaves: np.concatenate(leaves), *logs)
        return [_outcome(state, history, run) for run in range(len(np.asarray(theta0)))]


@partial(jax.jit, static_argnames=("solver", "model", "chunk", "local"))
def _advance(
    solver: Solver, model: Model, chunk: int, local: bool, rows: Rows, state: Any, size: Array
) -> tuple[Any, Record, Array]:
    """Up to `size` <= `chunk` rounds of every run that is not done, and their records."""
    answer = _answer_all(partial(local_sums if local else row_sums, model, solver.order), local)

    def one_round(carry: tuple[Array, Any, Record]) -> tuple[Array, Any, Record]:
        i, state, log = carry
        asked = jax.vmap(solver.query)(state)
        stepped = jax.vmap(solver.step)(state, answer(rows, asked))
        state = jax.vmap(choose)(done(state), state, stepped)
        log = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), log, state.record)
        return i + 1, state, log

    def going(carry: tuple[Array, Any, Record]) -> Array:
        i, state, _ = carry
        return (i < size) & ~jnp.all(done(state))

    empty = jax.tree.map(lambda leaf: jnp.zeros((chunk, *leaf.shape), leaf.dtype), state.record)
    count, state, log = jax.lax.while_loop(going, one_round, (jnp.array(0), state, empty))
    return state, log, count


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
        split = jax.tree.map(lambda q: q.reshape(tables, -1, *q.shape[1:]), queries)
        sums = jax.vmap(jax.vmap(answer, in_axes=(None, 0)), in_axes=(axes, 0))(rows, split)
        flat: Sums = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), sums)
        return flat

    return answer_all


def _outcome(state: Any, history: Record, run: int) -> Outcome:
    rounds = int(state.k[run])
    mine = replace(history, **{k: leaf[:rounds, run] for k, leaf in vars(history).items()})
    return Outcome(
        np.asarray(state.theta[run], np.float64), Status(int(state.status[run])), rounds, mine
    )
