"""Local epochs of all silos in one program: the sums that `question.worked` takes silo by silo."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import dense
from fairsilo.compute import Array, jax, jnp
from fairsilo.fairness.constraint import Measure
from fairsilo.model.base import Model
from fairsilo.partition.federation import Federation
from fairsilo.question.base import Problem
from fairsilo.question.model_sums import flatten
from fairsilo.question.worked import SMALL
from fairsilo.solver.base import Order, Query, Sums
from fairsilo.sums.rows import Rows, row_sums, stack_silos

WASTE = 4
"""How many times the rows the silos' filled tables may have."""
Draw = Callable[[int], np.random.Generator]
"""By a silo's number, what draws the order of its rows."""


class Epochs:
    """The rows of all silos, placed once, and the batches that an epoch cuts them into."""

    def __init__(self, problem: Problem, asked: Federation, w: Floats, v: Floats) -> None:
        work = problem.work
        assert work is not None
        self.model, self.measure, self.epochs = problem.model, problem.measure, work.epochs
        self.rate = float(problem.solver.alpha)  # type: ignore[attr-defined]
        self.sizes = np.diff(asked.offsets)
        rows = Rows(dense(asked.x), asked.y, w, v)  # type: ignore[arg-type]
        self.rows = jax.tree.map(jnp.asarray, stack_silos(rows, asked.offsets))
        shares = np.asarray(self.rows.w.sum(axis=1))
        cuts = [math.ceil(n / (work.batch or n)) for n in self.sizes]
        widest = max(math.ceil(n / cut) for n, cut in zip(self.sizes, cuts, strict=True))
        self.places = np.zeros((len(cuts), max(cuts), widest), np.int64)
        scales = np.zeros(self.places.shape)
        for i, (n, cut) in enumerate(zip(self.sizes, cuts, strict=True)):
            for j, part in enumerate(np.array_split(np.arange(n), cut)):
                self.places[i, j, : len(part)] = part
                scales[i, j, : len(part)] = self.rate * n / len(part) / shares[i]
        self.scales, self.shares = jnp.asarray(scales), jnp.asarray(shares)

    def sums(self, theta: Floats, mu: Floats, draw: Draw) -> Floats:
        """Loss and gaps at theta, and where the epochs led in place of the gradient."""
        turns = [self._turns(draw(i), i) for i in range(len(self.sizes))]
        batches = jnp.asarray(np.stack(turns), np.int32)
        fixed = (self.model, self.measure, self.rate)
        sums = _led(*fixed, self.rows, self.scales, self.shares, batches, Query(theta, mu))
        return flatten(sums)

    def _turns(self, rng: np.random.Generator, silo: int) -> Ints:
        """The rows of each batch of each epoch, (epochs, batches, rows)."""
        orders = (rng.permutation(self.sizes[silo]) for _ in range(self.epochs))
        return np.stack([order[self.places[silo]] for order in orders])


def fits(asked: Federation, w: Floats) -> bool:
    """Whether the tables, filled up to the longest, are small, and every silo has a share."""
    sizes = np.diff(asked.offsets)
    filled = int(sizes.max()) * len(sizes)
    shares = np.add.reduceat(w, asked.offsets[:-1]) if sizes.min() else np.zeros(1)
    small = filled <= WASTE * len(w) and filled * asked.x.shape[1] <= SMALL
    return bool(small and (shares > 0).all())


@partial(jax.jit, static_argnames=("model", "measure", "rate"))
def _led(
    model: Model,
    measure: Measure,
    rate: float,
    rows: Rows,
    scales: Array,
    shares: Array,
    batches: Array,
    query: Query,
) -> Sums:
    answer = partial(row_sums, model, Order.LAGRANGIAN, measure=measure)

    def silo(own: Rows, scale: Array, turns: Array) -> tuple[Sums, Array]:
        def step(at: Array, batch: tuple[Array, Array]) -> tuple[Array, None]:
            rows, c = batch
            part = Rows(own.x[rows], own.y[rows], c * own.w[rows], c * own.v[:, rows])
            return at - answer(part, Query(at, query.mu)).grad, None

        def epoch(at: Array, order: Array) -> tuple[Array, None]:
            return jax.lax.scan(step, at, (order, scale))[0], None

        return answer(own, query), jax.lax.scan(epoch, query.theta, turns)[0]

    each, ends = jax.vmap(silo)(rows, scales, batches)
    moved = shares @ (query.theta - ends) / rate
    total: Any = jax.tree.map(lambda leaf: leaf.sum(axis=0), each)
    return Sums(total.loss, total.d, moved)
