"""`private`: silos answer with clipped sums of their cells and noise; the rest is arithmetic.

With the noisy counts m of the set-up the server forms, from the released sums of cells,

    L = (all losses) / m         D_k = losses_a / m_a - losses_b / m_b         and their gradients,

which costs no privacy. The curvature of L is released with the first answer and used ever after:
at theta = 0 it is sum_j x_j x_j' / 4, an upper bound of what it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats
from fairsilo.compute import jnp
from fairsilo.dp import Clip, Mechanism, Plan
from fairsilo.engine.base import Outcome, Watch
from fairsilo.engine.clientwise import padded
from fairsilo.engine.loop import drive
from fairsilo.engine.messages import (
    count_message,
    counts_of,
    every,
    matrix_of,
    members,
    members_and_others,
    outcome_message,
    outcomes_of,
    round_messages,
)
from fairsilo.engine.sums import Rows
from fairsilo.fairness.constraint import Dgeo, compared_cells
from fairsilo.model.base import Model
from fairsilo.partition.federation import Federation
from fairsilo.solver.base import Order, Query, Solver, Sums

Ask = Callable[[Floats, bool], Sequence[Floats]]
"""(theta, with curvature or not) -> the released sums of `messages.round_messages`."""


class FromCells:
    """What a solver wants to know, from released sums of cells and nothing else."""

    def __init__(self, constraints: Sequence[Dgeo], counts: Floats, ask: Ask) -> None:
        self.constraints, self.ask = tuple(constraints), ask
        self.cells = compared_cells(constraints)
        self.hess: Floats | None = None
        self.count(counts)

    def count(self, counts: Floats) -> None:
        """Divide by these counts from now on, the answer that is being made included."""
        self.sizes = np.array([counts[cell] for cell in self.cells])
        self.rows = float(counts.sum())

    def answer(self, query: Query, order: Order) -> Sums:
        """The sums of a round, noise and all."""
        theta = np.asarray(query.theta)
        bent = order is Order.SECOND and self.hess is None
        flat, losses, *more = self.ask(theta, bent)
        if bent:
            self.hess = matrix_of(more[0], theta.size) / self.rows
        gradients = flat.reshape(-1, theta.size)
        loss, grad = losses.sum() / self.rows, gradients.sum(axis=0) / self.rows
        place = {cell: i for i, cell in enumerate(self.cells)}
        pairs = [(place[k.a, k.c], place[k.b, k.c]) for k in self.constraints]
        means, slopes = losses[:-1] / self.sizes, gradients[:-1] / self.sizes[:, None]
        d = np.array([means[a] - means[b] for a, b in pairs])
        jac = np.array([slopes[a] - slopes[b] for a, b in pairs]).reshape(len(pairs), grad.size)
        if order is Order.LAGRANGIAN:
            mixed = grad + np.asarray(query.mu) @ jac
            return Sums(jnp.asarray(loss), jnp.asarray(d), jnp.asarray(mixed))
        hess = jnp.asarray(self.hess) if order is Order.SECOND else None
        value, gap, slope, slopes_d = map(jnp.asarray, (loss, d, grad, jac))
        return Sums(value, gap, slope, slopes_d, hess)

    def noise(self, deviation: float) -> float:
        """The standard deviation of a coordinate of grad L: the noise of all cells, over m."""
        return float(deviation * np.sqrt(len(self.cells) + 1) / self.rows)


class Private:
    """Answers queries under differential privacy; `whole` sums all silos' rows in one go."""

    def __init__(
        self,
        model: Model,
        federation: Federation,
        constraints: Sequence[Dgeo],
        counts: Floats,
        mechanism: Mechanism,
        plan: Plan,
        clip: Clip,
        whole: bool = False,
    ) -> None:
        self.model, self.mechanism, self.plan, self.clip = model, mechanism, plan, clip
        self.server = FromCells(constraints, counts, self._released)
        inside = members_and_others(federation.y, federation.s, self.server.cells)
        self.silos = _silos(federation, inside, whole)

    def answer(self, query: Query, order: Order) -> Sums:
        """The sums of a round, noise and all."""
        return self.server.answer(query, order)

    def _released(self, theta: Floats, curvature: bool) -> list[Floats]:
        own = (
            round_messages(self.model, rows, theta, self.plan, self.clip, curvature)
            for rows in self.silos
        )
        return [self.mechanism.release(messages) for messages in zip(*own, strict=True)]

    @property
    def gradient_noise(self) -> float:
        """The standard deviation of a coordinate of grad L."""
        return self.server.noise(self.mechanism.deviation(self.clip.gradient, self.plan.gradient))

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


def noisy_counts(
    federation: Federation, mechanism: Mechanism, plan: Plan, whole: bool = False
) -> Floats:
    """m^{s,c} with noise."""
    shape = federation.groups, federation.classes
    parts = [federation] if whole else federation.parts()
    own = [count_message(part.y, part.s, *shape, plan) for part in parts]
    return counts_of(mechanism.release(own), *shape)


def noisy_outcomes(
    model: Model,
    federation: Federation,
    theta: Floats,
    mechanism: Mechanism,
    plan: Plan,
    clip: Clip,
    whole: bool = False,
) -> tuple[Floats, Floats]:
    """Losses and rows predicted right of every (group, class) cell under the trained model."""
    shape = federation.groups, federation.classes
    inside = members(federation.y, federation.s, every(*shape))
    own = [
        outcome_message(model, rows, theta, plan, clip)
        for rows in _silos(federation, inside, whole)
    ]
    return outcomes_of(mechanism.release(own), *shape, clip)


def _silos(federation: Federation, inside: Floats, whole: bool) -> list[Rows]:
    """Every silo's rows, or all in one, with their cells in the place of v."""
    rows = Rows(federation.x, federation.y, np.ones(federation.rows), inside)  # type: ignore[arg-type]
    offsets = np.array([0, federation.rows]) if whole else federation.offsets
    return [padded(rows, start, stop) for start, stop in pairwise(offsets)]
