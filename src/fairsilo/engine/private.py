"""`private`: silos answer with clipped sums of their cells and noise; the rest is arithmetic.

The rows fall into disjoint cells: one for each constrained group in the protected class, and all
other rows. A silo's answer is, for each cell, the sum of clipped losses and of clipped gradients,
not divided by anything. With the noisy counts m of the set-up the server forms

    L = (all losses) / m         D_k = losses_a / m_a - losses_b / m_b         and their gradients,

which costs no privacy. The curvature of L is released with the first answer and used ever after:
at theta = 0 it is sum_j x_j x_j' / 4, an upper bound of what it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fairsilo.compute import jnp
from fairsilo.dp import Clip, Mechanism, Plan
from fairsilo.engine.base import Outcome, Watch
from fairsilo.engine.clientwise import padded
from fairsilo.engine.clipped import clipped_curvature, clipped_outcomes, clipped_sums
from fairsilo.engine.loop import drive
from fairsilo.engine.sums import Rows
from fairsilo.fairness.constraint import Dgeo, count_cells
from fairsilo.model.base import Model
from fairsilo.partition.federation import Federation
from fairsilo.solver.base import Order, Query, Solver, Sums

Floats = npt.NDArray[np.float64]


def noisy_counts(
    federation: Federation, mechanism: Mechanism, plan: Plan, whole: bool = False
) -> Floats:
    """m^{s,c} with noise, at least one each: one row changes one count by one."""
    shape = federation.groups, federation.classes
    parts = [federation] if whole else federation.parts()
    counts = [count_cells(part.y, part.s, *shape).ravel().astype(np.float64) for part in parts]
    return np.maximum(mechanism.release("counts", counts, 1.0, plan.counts), 1.0).reshape(shape)


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
    every = [(g, c) for g in range(shape[0]) for c in range(shape[1])]
    own = [
        np.asarray(clipped_outcomes(model, rows, jnp.asarray(theta), clip.loss)).ravel()
        for rows in _silos(federation, _members(federation, every), whole)
    ]
    total = mechanism.release("outcomes", own, clip.loss * np.sqrt(2), plan.final)
    losses, right = total.reshape(2, *shape)
    return losses, right / clip.loss


def _members(federation: Federation, cells: Sequence[tuple[int, int]]) -> Floats:
    """Who is in which cell, (cells, n)."""
    y, s = federation.y, federation.s
    return np.array([(s == g) & (y == c) for g, c in cells], np.float64).reshape(-1, len(y))


def _silos(federation: Federation, members: Floats, whole: bool) -> list[Rows]:
    """Every silo's rows, or all in one, with their cells in the place of v."""
    rows = Rows(federation.x, federation.y, np.ones(federation.rows), members)  # type: ignore[arg-type]
    offsets = np.array([0, federation.rows]) if whole else federation.offsets
    return [padded(rows, start, stop) for start, stop in pairwise(offsets)]


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
        self.constraints = tuple(constraints)
        self.cells = sorted({(g, k.c) for k in constraints for g in (k.a, k.b)})
        self.sizes = np.array([counts[cell] for cell in self.cells])
        self.rows = float(counts.sum())
        self.hess: Floats | None = None
        inside = _members(federation, self.cells)
        others = 1 - inside.sum(axis=0, keepdims=True)
        self.silos = _silos(federation, np.vstack([inside, others]), whole)

    def answer(self, query: Query, order: Order) -> Sums:
        """The sums of a round, noise and all."""
        losses, gradients = self._first(query)
        loss, grad = losses.sum() / self.rows, gradients.sum(axis=0) / self.rows
        place = {cell: i for i, cell in enumerate(self.cells)}
        pairs = [(place[k.a, k.c], place[k.b, k.c]) for k in self.constraints]
        means, slopes = losses[:-1] / self.sizes, gradients[:-1] / self.sizes[:, None]
        d = np.array([means[a] - means[b] for a, b in pairs])
        jac = np.array([slopes[a] - slopes[b] for a, b in pairs]).reshape(len(pairs), grad.size)
        if order is Order.LAGRANGIAN:
            mixed = grad + np.asarray(query.mu) @ jac
            return Sums(jnp.asarray(loss), jnp.asarray(d), jnp.asarray(mixed))
        hess = None
        if order is Order.SECOND:
            if self.hess is None:
                self.hess = self._curvature(query) / self.rows
            hess = jnp.asarray(self.hess)
        value, gap, slope, slopes_d = map(jnp.asarray, (loss, d, grad, jac))
        return Sums(value, gap, slope, slopes_d, hess)

    def _first(self, query: Query) -> tuple[Floats, Floats]:
        """Losses and gradients of every cell."""
        clip, plan = self.clip, self.plan
        own = [
            clipped_sums(self.model, rows, query.theta, clip.gradient, clip.loss)
            for rows in self.silos
        ]
        losses, gradients = zip(*own, strict=True)
        shape = gradients[0].shape
        flat = [np.asarray(one).ravel() for one in gradients]
        noisy = self.mechanism.release("gradients", flat, clip.gradient, plan.gradient)
        heights = list(map(np.asarray, losses))
        return (
            self.mechanism.release("losses", heights, clip.loss, plan.loss),
            noisy.reshape(shape),
        )

    def _curvature(self, query: Query) -> Floats:
        """One triangle, off the diagonal times sqrt(2): its length is the matrix's."""
        trace = self.clip.curvature
        size = self.model.size
        upper = np.triu_indices(size)
        stretch = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
        own = [
            np.asarray(clipped_curvature(self.model, rows, query.theta, trace))[upper] * stretch
            for rows in self.silos
        ]
        noisy = self.mechanism.release("curvature", own, trace, self.plan.curvature) / stretch
        matrix = np.zeros((size, size))
        matrix[upper] = noisy
        return np.triu(matrix) + np.triu(matrix, 1).T

    @property
    def gradient_noise(self) -> float:
        """The standard deviation of a coordinate of grad L: the noise of all cells, over m."""
        one = self.mechanism.deviation(self.clip.gradient, self.plan.gradient)
        return float(one * np.sqrt(len(self.cells) + 1) / self.rows)

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
