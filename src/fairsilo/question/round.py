"""One round of a solver: L, D_k, their gradients and the Hessian at (theta, mu)."""

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness.constraint import Constraint, Measure, Totals
from fairsilo.fairness.weigh import weigh_silo
from fairsilo.question.base import Problem, Question, Silo, Unfit, fitting, set_aside
from fairsilo.question.model_sums import sums_of
from fairsilo.question.plausible import NOTHING, Known
from fairsilo.question.round_bounds import wrong_sums
from fairsilo.question.worked import worked
from fairsilo.solver.base import Order, Sums


@dataclass(frozen=True, eq=False)
class Round(Question, kind="round", moving=True):
    """Weighted sums over rows at a point; the weights follow from the counts of all silos."""

    theta: Floats
    mu: Floats
    order: str
    totals: Floats
    """The answer to `Counts`."""
    rest: bool = False
    """Whether to leave out the rows that each silo sets aside."""
    limited: bool = True
    """Whether the problem's constraints count; without them this is plain training."""
    turn: int = 0
    """The number of the round, by which the rows of local epochs are ordered."""

    def constraints(self, problem: Problem) -> tuple[Constraint, ...]:
        """Those that count."""
        return problem.constraints if self.limited else ()

    def measure(self, problem: Problem) -> Measure:
        """What they limit."""
        return problem.measure if self.limited else "loss"

    def check(self, problem: Problem) -> None:
        """Theta, mu and totals have the problem's sizes."""
        pairs = len(self.constraints(problem))
        fitting(
            self,
            theta=(problem.model.size,),
            mu=(pairs,),
            totals=(problem.totals_length(pairs),),
        )
        if self.rest and not problem.rest:
            raise Unfit("the problem sets no rows aside")
        if self.turn < 0 or (problem.work is not None and self.order != Order.LAGRANGIAN.value):
            raise Unfit("the round does not fit local epochs")
        if self.order not in {order.value for order in Order}:
            raise Unfit(f"the order {self.order!r} of a round is unknown")

    def length(self, problem: Problem) -> int:
        """As many numbers as the order asks for."""
        pairs = len(self.constraints(problem))
        return numbers_up(Order(self.order), problem.model.size, pairs, self.measure(problem))

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """The silo's part of the sums."""
        rows, at = weighted_rows(problem, silo, self), (self.theta, self.mu)
        if problem.work is not None and self.order == Order.LAGRANGIAN.value:
            order = self.order_of(problem, silo.index)
            return worked(problem, rows, *at, self.measure(problem), order)
        return sums_of(problem.model, self.order, *rows, *at, self.measure(problem))

    def order_of(self, problem: Problem, silo: int) -> np.random.Generator:
        """What draws the order in which that silo's local epochs take its rows."""
        return np.random.default_rng([problem.seed, 2, silo, self.turn])

    def read(self, problem: Problem, vector: Floats) -> Sums:
        """The sums that the vector stands for."""
        pairs = len(self.constraints(problem))
        order, size = Order(self.order), problem.model.size
        return unflatten(vector, order, size, pairs, self.measure(problem))

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """What `round_bounds` says of losses, gaps, gradients and the Hessian."""
        totals = Totals.from_vector(self.totals, *problem.layout)
        if self.rest and known.alone and known.rows is not None:
            # What the rows set aside weigh, only the silo knows.
            rest = None if problem.weighted else known.rows - set_aside(int(known.rows))
            known = replace(known, rows=rest)
        constraints, measure = self.constraints(problem), self.measure(problem)
        asked = replace(problem, constraints=constraints, measure=measure)
        sums = self.read(problem, vector)
        return wrong_sums(asked, sums, (self.theta, self.mu), totals, known)


def weighted_rows(
    problem: Problem, silo: Silo, question: Round
) -> tuple[Floats, Ints, Floats, Floats]:
    """x, y, w and v of the silo's rows; kept until what the weights follow from changes."""
    key = (
        problem.estimator,
        problem.seed,
        question.constraints(problem),
        silo.min_cell,
        question.rest,
        question.limited,
        question.totals.tobytes(),
    )
    if silo.cache.get("weighted") != key:
        part = silo.rows(problem, question.rest)
        totals = Totals.from_vector(question.totals, *problem.layout)
        if totals.rows <= 0:
            # Not: fewer rows than this silo has, which would tell how many it has.
            raise Unfit("the totals count no rows")
        asked = weigh_silo(
            part.y,
            part.s,
            question.constraints(problem),
            problem.estimator,
            totals,
            silo.min_cell,
            part.times(problem),
            problem.class_weight,
        )
        x = part.x if asked.source is None else part.x[asked.source]
        silo.cache["weighted"], silo.cache["rows"] = key, (x, asked.y, asked.w, asked.v)
    rows: tuple[Floats, Ints, Floats, Floats] = silo.cache["rows"]
    return rows


def numbers_up(order: Order, parameters: int, constraints: int, measure: Measure = "loss") -> int:
    """How many numbers one silo sends per round; of the Hessian, one triangle."""
    smooth = constraints if measure == "rate" else 0
    if order is Order.LAGRANGIAN:
        return 1 + constraints + smooth + parameters
    first = (1 + constraints) * (1 + parameters) + smooth
    triangle = parameters * (parameters + 1) // 2
    return first + (triangle if order is Order.SECOND else 0)


def numbers_down(parameters: int, constraints: int) -> int:
    """How many numbers one silo receives per round: theta and mu."""
    return parameters + constraints


def unflatten(
    vector: Floats, order: Order, parameters: int, constraints: int, measure: Measure = "loss"
) -> Sums:
    """The sums that a vector stands for: loss, d, grad, jac, one triangle of hess."""
    loss, vector = vector[0], vector[1:]
    gaps = constraints * (2 if measure == "rate" else 1)
    d, vector = vector[:gaps], vector[gaps:]
    grad, vector = vector[:parameters], vector[parameters:]
    if order is Order.LAGRANGIAN:
        return Sums(loss, d, grad)
    size = constraints * parameters
    jac, vector = vector[:size].reshape(constraints, parameters), vector[size:]
    if order is Order.FIRST:
        return Sums(loss, d, grad, jac)
    hess = np.zeros((parameters, parameters))
    rows, columns = np.triu_indices(parameters)
    hess[rows, columns] = hess[columns, rows] = vector
    return Sums(loss, d, grad, jac, hess)
