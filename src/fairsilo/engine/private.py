"""`private`: silos answer with clipped sums of their cells and noise; the rest is arithmetic.

With the noisy counts m of the set-up the server forms, from the released sums of cells,

    L = (all losses) / m         D_k = losses_a / m_a - losses_b / m_b         and their gradients,

which costs no privacy. The curvature of L is released with the first answer and used ever after:
at theta = 0 it is sum_j x_j x_j' / 4, an upper bound of what it is elsewhere. Of a model with steps
it follows from the counts that the steps were found from (`run.counted`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.coded import joined
from fairsilo.dp import Mechanism
from fairsilo.engine.clientwise import Clientwise, weight_of
from fairsilo.engine.loop import drive
from fairsilo.fairness.constraint import Constraint, Totals
from fairsilo.question.base import Part, Problem, Question, Silo
from fairsilo.question.cells import Cells, NoisyCounts, compared_cells, promised
from fairsilo.solver import Noisy, Solver
from fairsilo.solver.base import Order, Outcome, Query, Sums, Watch

Ask = Callable[[Floats, bool], Sequence[Floats]]
"""(theta, with curvature or not) -> what `Cells` reads: gradients, losses, curvature."""


class FromCells:
    """What a solver wants to know, from released sums of cells and nothing else."""

    def __init__(
        self,
        constraints: Sequence[Constraint],
        counts: Floats,
        ask: Ask,
        hess: Floats | None = None,
    ) -> None:
        self.ask = ask
        self.cells = compared_cells(constraints, *counts.shape)
        sides = [one.sides(*counts.shape) for one in constraints]
        self.plus, self.minus = (
            np.array([[side[k][cell] for cell in self.cells] for side in sides], np.float64)
            .reshape(len(sides), len(self.cells))
            for k in (0, 1)
        )  # fmt: skip
        self.hess = hess
        """Of L; None: released with the first answer."""
        self.count(counts)

    def count(self, counts: Floats) -> None:
        """Divide by these counts from now on, the answer that is being made included."""
        sizes = np.array([counts[cell] for cell in self.cells])
        plus, minus = self.plus @ sizes, self.minus @ sizes
        self.weights = self.plus / plus[:, None] - self.minus / np.maximum(minus, 1.0)[:, None]
        """How much a cell's sum counts in each D_k, (constraints, cells)."""
        self.rows = float(counts.sum())

    def answer(self, query: Query, order: Order) -> Sums:
        """The sums of a round, noise and all."""
        theta = np.asarray(query.theta)
        bent = order is Order.SECOND and self.hess is None
        gradients, losses, *more = self.ask(theta, bent)
        if bent:
            self.hess = more[0] / self.rows
        loss, grad = losses.sum() / self.rows, gradients.sum(axis=0) / self.rows
        d, jac = self.weights @ losses[:-1], self.weights @ gradients[:-1]
        if order is Order.LAGRANGIAN:
            return Sums(loss, d, grad + np.asarray(query.mu) @ jac)
        return Sums(loss, d, grad, jac, self.hess if order is Order.SECOND else None)

    def noise(self, deviation: float) -> float:
        """The standard deviation of a coordinate of grad L: the noise of all cells, over m."""
        return float(deviation * np.sqrt(len(self.cells) + 1) / self.rows)


def solver_under_noise(problem: Problem, noise: float) -> Solver:
    """The solver for sums whose gradients have that noise in a coordinate: Newton has its own."""
    if problem.solver.name != "newton":
        return problem.solver
    counted, scale = problem.curvature is not None, promised(problem).clip.curvature
    return Noisy(problem.rounds, noise, scale, counted=counted)


class Private(Clientwise):
    """Silos in this process whose answers carry noise; `whole` sums all their rows in one go."""

    def __init__(self, silos: Sequence[Silo], mechanism: Mechanism, whole: bool = False) -> None:
        super().__init__([_together(silos)] if whole else silos)
        self.mechanism, self._clients = mechanism, len(silos)
        self._counts: Floats | None = None

    @property
    def clients(self) -> int:
        """How many silos there are."""
        return self._clients

    def ask(self, problem: Problem, question: Question) -> Any:
        """The sum of what the silos release, noise and all."""
        if not question.private:
            return super().ask(problem, question)
        question.check(problem)
        each = zip(*(question.messages(problem, silo) for silo in self.silos), strict=True)
        released = [self.mechanism.release(messages) for messages in each]
        return question.read(problem, np.concatenate(released))

    def deviation(self, reach: float, multiplier: float) -> float:
        """The standard deviation of the noise in a released sum over all silos."""
        return self.mechanism.deviation(reach, multiplier)

    def counts(self, problem: Problem) -> Floats:
        """m^{s,c} with noise, released once."""
        if self._counts is None:
            self._counts = self.ask(problem, NoisyCounts())
        return self._counts

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """The noisy counts as whole numbers; rows with weights have no others."""
        cells = np.rint(self.counts(problem)).astype(np.int64)
        none = np.zeros(len(problem.constraints), np.int64)
        return Totals(int(cells.sum()), cells, none)

    def noise(self, problem: Problem) -> float:
        """The standard deviation of the noise in a coordinate of grad L."""
        plan, clip = promised(problem).plan, promised(problem).clip
        return self._server(problem).noise(self.deviation(clip.gradient, plan.gradient))

    def under_noise(self, problem: Problem) -> Problem:
        """The problem with the solver that noise makes of it."""
        return replace(problem, solver=solver_under_noise(problem, self.noise(problem)))

    def _server(self, problem: Problem) -> FromCells:
        limited = bool(problem.constraints)

        def ask(theta: Floats, curvature: bool) -> Sequence[Floats]:
            found: Sequence[Floats] = self.ask(problem, Cells(theta, curvature, limited))
            return found

        return FromCells(problem.constraints, self.counts(problem), ask, problem.curvature)

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """One question a round, every answer with noise."""
        problem = self.under_noise(problem)
        start = problem.model.start(problem.seed)
        return drive(
            problem.solver, self._server(problem).answer, start, problem.limits, problem.rounds,
            watch, problem.penalty,
        )  # fmt: skip


def _together(silos: Sequence[Silo]) -> Silo:
    """All silos' training rows as one silo's."""
    import pandas as pd

    parts = [silo.train for silo in silos]
    frames = [part.frame for part in parts if part.frame is not None]
    whole = Part(
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.s for part in parts]),
        joined([part.x for part in parts]),
        pd.concat(frames) if frames else None,
        weight_of(parts),
    )
    return Silo(whole, silos[0].test)
