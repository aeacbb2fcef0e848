"""An engine answers questions with sums over silos; it does not matter where the silos are."""

import itertools
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine.loop import drive
from fairsilo.fairness.constraint import Totals
from fairsilo.predictor.base import Predictor
from fairsilo.question.base import Problem, Question
from fairsilo.question.round import Round
from fairsilo.solver.base import Order, Outcome, Query, Status, Sums, Watch


class Changed(Exception):
    """The silos changed within a round: its sums do not compare with those before it."""

    def __init__(self, start: Floats | None = None) -> None:
        super().__init__("the silos changed within a round")
        self.start = start
        """Where training may begin anew; None: it may go on from wherever it stands."""

    def onward(self, stood: Floats, asked: Floats) -> Floats:
        """Where a solver goes on that stood on one point and asked about another.

        Not where silos that are gone have answered: halfway back to the start. A point that was
        only tried can be anywhere.
        """
        if self.start is None:
            return stood
        return (self.start + (asked if np.array_equal(stood, self.start) else stood)) / 2

    def anew(self, problem: Problem) -> Problem:
        """The problem as a method begins it anew."""
        if self.start is None:
            return problem
        return replace(problem, model=problem.model.starting_at(self.start))


class Engine(Protocol):
    """Pooled, clientwise and network are engines. Methods know nothing else of them."""

    min_cell: int | None
    """Below how many rows a cell takes no part in constraints; None: each silo decides."""

    @property
    def clients(self) -> int:
        """How many silos take part."""

    def ask(self, problem: Problem, question: Question) -> Any:
        """The sum of the silos' answers, as the question reads it; raises `Changed`."""

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """The answer to `Counts`, as it stands: after a silo was lost, of the others.

        `unweighted`: with every row as one, whatever it weighs.
        """

    def noise(self, problem: Problem) -> float:
        """The standard deviation of the noise in a coordinate of grad L; 0 without noise."""

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """Drive the problem's solver from the model's start to its end."""

    def own(self) -> tuple[Predictor, ...]:
        """The silos' own models, as far as this engine may see them."""


def answers(engine: Engine, problem: Problem) -> Any:
    """What a solver asks for, as `drive` wants it: each query is a `Round`."""
    turns = itertools.count()

    def answer(query: Query, order: Order) -> Sums:
        sums: Sums = engine.ask(
            problem,
            Round(
                theta=np.asarray(query.theta, np.float64),
                mu=np.asarray(query.mu, np.float64),
                order=order.value,
                totals=engine.count(problem).to_vector(),
                rest=problem.rest,
                limited=bool(problem.constraints),
                turn=next(turns) if problem.work is not None else 0,
            ),
        )
        return sums

    return answer


def solve_by_asking(engine: Engine, problem: Problem, watch: Watch | None = None) -> Outcome:
    """One question a round."""
    ended = drive(
        problem.solver,
        answers(engine, problem),
        problem.start,
        problem.limits,
        problem.rounds,
        watch,
        problem.penalty,
    )
    return at_rest(problem, ended)


def at_rest(problem: Problem, ended: Outcome) -> Outcome:
    """Local epochs rest where the silos' steps cancel, not where the gradient is zero: STALLED."""
    if problem.work is None or problem.work.exact or ended.status is not Status.CONVERGED:
        return ended
    return replace(ended, status=Status.STALLED)
