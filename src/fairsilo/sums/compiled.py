"""Solvers compiled: all silos' rows in one array, many rounds and many runs in one XLA program.

Because a round is a weighted sum over rows, nobody needs to know where one silo ends and
the next begins. Runs that differ in epsilon, in starting point or in row weights share x, so
that R runs make one matrix product with R columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from fairsilo.coded import Coded
from fairsilo.compute import Array, jax, jnp, over_first_axis, quick_options
from fairsilo.fairness.constraint import Measure
from fairsilo.model.base import Model
from fairsilo.solver.base import Order, Outcome, Query, Record, Solver, Status, Sums, Watch, done
from fairsilo.solver.penalty import added
from fairsilo.sums.coded import Table, placed
from fairsilo.sums.mesh import mesh_of_all, over_devices, spread
from fairsilo.sums.rows import (
    LONG,
    PIECE,
    Answer,
    Rows,
    in_blocks,
    in_pieces,
    local_sums,
    many_sums,
    row_sums,
)

CHUNK = {Order.LAGRANGIAN: 500, Order.FIRST: 10, Order.SECOND: 1}
"""Rounds per call of the compiled loop: often enough to show progress, no oftener."""

CACHED = 65_536
"""Rows times runs that a CPU works on at a time, so that what is in between stays small."""
COUNTED = 1 << 20
"""Rows that Newton's matrix is counted over at a time."""
SMALLEST = 1024
"""But at least so many rows."""
LARGEST_MATRIX = 1 << 27
"""Bytes of the largest dense matrix that is made of codes."""
LARGEST_MATRICES = 1 << 33
"""The same for many tables on a GPU, which takes codes table by table and matrices at once."""
UNROLLED = 5
"""Rounds of gradients that a GPU is given at a time: it waits for the host only between them."""


class Compiled:
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
        y = jnp.asarray(rows.y, np.min_scalar_type(model.classes - 1))
        stored = Rows(self._stored(rows.x), y, cast(rows.w), cast(rows.v))
        self.mesh = None if local else mesh_of_all()
        self.rows = spread(stored, self.mesh) if self.mesh else stored

    def _stored(self, x: Table) -> Table:
        """Codes stay codes where the matrix is large, and for one table on a CPU always."""
        table: Table = placed(x, self.dtype)
        if not isinstance(table, Coded):
            return table
        cpu, many = jax.default_backend() == "cpu", x.ndim > 2
        shared = not many and self.model.only_multiplies and cpu
        most = LARGEST_MATRICES if many and not cpu else LARGEST_MATRIX
        large = math.prod(table.shape) * self.dtype.itemsize > most
        return table if shared or large else table.matrix()

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
        penalty: npt.ArrayLike | None = None,
    ) -> list[Outcome]:
        """R runs at once: theta0 (R, p), epsilon (R, K); `penalty` (`Penalty.matrix`) is for all.

        What of the rows (all of x, y, w and v, or only weights) has a leading axis S are S
        tables, each for the next R / S runs; the rest is shared. `watch` sees the first run.
        A `thin` history has one record for each call of the compiled loop, not one a round.
        """
        cast = partial(jnp.asarray, dtype=self.dtype)
        state = jax.vmap(solver.init)(cast(theta0), cast(epsilon))
        form = None if penalty is None else cast(penalty)
        chunk = CHUNK[solver.order]
        logs: list[Record] = []
        taken = 0
        while taken < rounds and not bool(jnp.all(done(state))):
            size = min(chunk, rounds - taken)
            state, log = self.advance(solver, size, thin, state, form)
            logs.append(jax.tree.map(np.asarray, log))
            taken += size
            if watch:
                watch(int(jnp.max(state.k)), jax.tree.map(lambda leaf: leaf[-1, 0], logs[-1]))
        history = jax.tree.map(lambda *leaves: np.concatenate(leaves), *logs)
        state = jax.tree.map(np.asarray, state)
        kept = -(-state.k // chunk) if thin else state.k
        return [_outcome(state, history, run, kept[run]) for run in range(len(state.k))]

    def advance(
        self, solver: Solver, size: int, thin: bool, state: Any, penalty: Array | None = None
    ) -> tuple[Any, Record]:
        """`size` rounds of every run that is not done, and their records (the last, if thin)."""
        answer = Asked(self.model, solver.order, self.local, self.measure, self.mesh)
        compiled = _compiled(_one_table(self.rows, self.local), solver.order is Order.SECOND)
        return compiled(solver, answer, size, thin, self.rows, state, penalty)


@dataclass(frozen=True)
class Asked:
    """What is asked of the rows, by which model, and over which devices they are spread."""

    model: Model
    order: Order
    local: bool
    measure: Measure
    mesh: Mesh | None


@cache
def _compiled(one_table: bool, few: bool) -> Callable[..., tuple[Any, Record]]:
    """`_advance`, compiled for the machine that there is, and for `few` rounds or many.

    For the few columns of one table's runs cuBLAS is faster than the kernels that XLA writes with
    Triton (64 runs of ADULT on one H200: 61 us a round instead of 77), for many tables slower.
    """
    tuned = one_table and jax.default_backend() == "gpu"
    options = quick_options() if few else None
    if tuned:
        options = {"xla_gpu_enable_triton_gemm": False}
    fixed = ("solver", "asked", "size", "thin")
    return jax.jit(_advance, static_argnames=fixed, compiler_options=options)


def _advance(
    solver: Solver,
    asked: Asked,
    size: int,
    thin: bool,
    rows: Rows,
    state: Any,
    penalty: Array | None = None,
) -> tuple[Any, Record]:
    """The compiled loop.

    The number of rounds is known when the program is compiled, so that a GPU need not report to
    the host after each of them.
    """
    answer = _answer_all(asked)
    if asked.mesh:
        answer = over_devices(answer, asked.mesh)

    pack, unpack = _packing(state)

    # A run's state travels from round to round as one vector: a GPU writes it in one go, not
    # number by number.
    def one_round(packed: Array, _: None) -> tuple[Array, Record | None]:
        state = unpack(packed)
        queries = jax.vmap(solver.query)(state)
        sums = answer(rows, queries)
        if penalty is not None:
            sums = jax.vmap(partial(added, penalty))(queries.theta, sums)
        stepped = jax.vmap(solver.step)(state, sums)
        packed = jnp.where(done(state)[:, None], packed, pack(stepped))
        return packed, None if thin else unpack(packed).record

    # Many tables take longer to compile than this would save.
    short = _one_table(rows, asked.local) and solver.order is Order.LAGRANGIAN
    unroll = UNROLLED if short and jax.default_backend() == "gpu" else 1
    packed, log = jax.lax.scan(one_round, pack(state), length=size, unroll=unroll)
    state = unpack(packed)
    last: Record = jax.tree.map(lambda leaf: leaf[None], state.record)
    return state, last if log is None else log


def _own(rows: Rows, local: bool) -> list[bool]:
    """Which of x, y, w and v have a leading axis of tables."""
    plain = (2, 1, 1, 2)
    return [leaf.ndim > axes + int(local) for leaf, axes in zip(rows.leaves(), plain, strict=True)]


def _one_table(rows: Rows, local: bool) -> bool:
    return not local and not any(_own(rows, local))


def _packing(state: Any) -> tuple[Callable[[Any], Array], Callable[[Array], Any]]:
    """From the states of many runs to one vector each, and back."""
    first = jax.tree.map(lambda leaf: leaf[0], state)
    return jax.vmap(lambda one: ravel_pytree(one)[0]), jax.vmap(ravel_pytree(first)[1])


def _answer_all(asked: Asked) -> Answer:
    """Answer the queries of R runs. Rows with a leading axis S serve R / S runs in a row each."""
    model, order, local, measure = asked.model, asked.order, asked.local, asked.measure
    cpu = jax.default_backend() == "cpu"

    def answer_table(rows: Rows, queries: Query) -> Sums:
        if local:
            answer = partial(local_sums, model, order, measure=measure)
            return jax.vmap(answer, in_axes=(None, 0))(rows, queries)
        if cpu or isinstance(rows.x, Coded):
            many = partial(many_sums, model, order, measure=measure)
            size = max(SMALLEST, CACHED // queries.theta.shape[0])
            if order is Order.SECOND and model.linear and isinstance(rows.x, Coded):
                # The tables of `gram` are as large as such a block: few of them.
                size = COUNTED
            return in_blocks(many, rows, queries, size) if cpu else many(rows, queries)
        each = jax.vmap(partial(row_sums, model, order, measure=measure), in_axes=(None, 0))
        n, runs = rows.y.shape[-1], queries.theta.shape[0]
        whole = n >= LONG and n % PIECE == 0
        # One run of a linear model is a matrix times a vector, which XLA does well by itself.
        if whole and (runs > 1 or model.apply_many is None):
            return in_pieces(each, rows, queries)
        return each(rows, queries)

    def answer_all(rows: Rows, queries: Query) -> Sums:
        own = _own(rows, local)
        if not any(own):
            return answer_table(rows, queries)
        tables = next(leaf.shape[0] for leaf, mine in zip(rows.leaves(), own, strict=True) if mine)
        shape = (tables, queries.theta.shape[0] // tables)
        split = jax.tree.map(lambda q: q.reshape(*shape, *q.shape[1:]), queries)
        sums = _over_tables(answer_table, rows, own, split)
        flat: Sums = jax.tree.map(
            lambda leaf: leaf.reshape(shape[0] * shape[1], *leaf.shape[2:]), sums
        )
        return flat

    return answer_all


def _over_tables(answer: Answer, rows: Rows, own: Sequence[bool], queries: Query) -> Sums:
    """Every table's answer to its own queries; what is not a table's `own`, all share."""
    leaves = rows.leaves()

    def one(mine: list[Table], query: Query) -> Sums:
        rest = iter(mine)
        parts = [next(rest) if own_ else leaf for leaf, own_ in zip(leaves, own, strict=True)]
        return answer(Rows(*parts), query)  # type: ignore[arg-type]

    tables = [leaf for leaf, mine in zip(leaves, own, strict=True) if mine]
    return over_first_axis(one, tables, queries)


def _outcome(state: Any, history: Record, run: int, kept: int) -> Outcome:
    mine = replace(history, **{k: leaf[:kept, run] for k, leaf in vars(history).items()})
    theta = np.asarray(state.theta[run], np.float64)
    sums = getattr(state, "sums", None)
    # Of many runs nobody looks at the curvature.
    alone = len(state.theta) == 1 and sums is not None and sums.hess is not None
    hess = np.asarray(sums.hess[run], np.float64) if sums is not None and alone else None
    return Outcome(theta, Status(int(state.status[run])), int(state.k[run]), mine, hess)
