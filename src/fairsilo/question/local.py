"""LCO in a silo: its own constraints, multipliers and penalty, of which only sums ever leave.

    A_i(theta) = sum_j w_j l_j
                 + sum_k [ psi(lambda_a,k, D_ik - eps_k) + psi(lambda_b,k, -D_ik - eps_k) ]
    psi(lambda, g) = ( max(0, lambda + rho g)^2 - lambda^2 ) / (2 rho)

D_ik is the silo's own gap of constraint k; lambda_a, lambda_b >= 0 live in the silo. The silo
answers with A_i, its gradient and Hessian, its loss and max(g, -lambda / rho)^2, summed over both
sides of all k: zero where every constraint holds and none that is slack has a multiplier. A new
number of dual steps tells it to take its own: lambda becomes max(0, lambda + rho g) at the theta of
the question, and stays so for all questions of that turn, whenever they are asked again. At turn 0,
where a training begins, all lambda are zero.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.fairness.constraint import Totals
from fairsilo.question.base import Problem, Question, Silo, Unfit, fitting
from fairsilo.question.model_sums import sums_of
from fairsilo.question.plausible import NOTHING, ROUNDING, Known
from fairsilo.question.round import Round, numbers_up, unflatten, weighted_rows
from fairsilo.solver.base import Order, Sums


@dataclass(frozen=True, eq=False)
class Local(Question, kind="local", moving=True):
    """The augmented Lagrangian at theta, multipliers and gaps staying in the silos."""

    theta: Floats
    rho: float
    turn: int
    """How many dual steps the silos have been told to take."""
    totals: Floats

    def check(self, problem: Problem) -> None:
        """Theta and totals have the problem's sizes, and rho is positive."""
        totals = (problem.totals_length(len(problem.constraints)),)
        fitting(self, theta=(problem.model.size,), totals=totals)
        if not (0 < self.rho < np.inf) or self.turn < 0:
            raise Unfit("rho and turn of the question 'local' do not fit the problem")

    def length(self, problem: Problem) -> int:
        """Value, gradient and Hessian, and two: the plain loss and what is amiss, squared."""
        return numbers_up(Order.SECOND, problem.model.size, 0) + 2

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """The silo's part of the sums; it takes its dual step first, where it is told to."""
        shape = (2, len(problem.constraints))
        turns, now, last = silo.memory, str(self.turn), str(self.turn - 1)
        if not self.turn:
            turns.clear()
            turns[now] = [self.rho, *np.zeros(shape).ravel()]
        elif now not in turns:
            if last not in turns:
                raise Unfit("this silo has no multipliers of the turn before: train anew")
            rho, *before = turns[last]
            stepped = replace(self, rho=rho)._answer(problem, silo, np.reshape(before, shape))[1]
            for old in turns.keys() - {last}:
                del turns[old]
            turns[now] = [self.rho, *stepped.ravel().tolist()]
        return self._answer(problem, silo, np.reshape(turns[now][1:], shape))[0]

    def _answer(self, problem: Problem, silo: Silo, multipliers: Floats) -> tuple[Floats, Floats]:
        """The silo's vector, and the multipliers (2, K) after a dual step at theta."""
        pairs, size, rho = len(problem.constraints), problem.model.size, self.rho
        own = replace(problem, estimator="local")
        asked = Round(self.theta, np.zeros(pairs), "first", self.totals)
        rows = weighted_rows(own, silo, asked)
        first = sums_of(problem.model, "first", *rows, self.theta, np.zeros(pairs))
        loss, d = first[0], first[1 : 1 + pairs]
        grad, jac = np.split(first[1 + pairs :], [size])
        jac = jac.reshape(pairs, size)
        over = np.stack([d - problem.limits, -d - problem.limits])
        pushed = np.maximum(multipliers + rho * over, 0)
        value = loss + float((pushed**2 - multipliers**2).sum()) / (2 * rho)
        mu = pushed[0] - pushed[1]
        second = sums_of(problem.model, "second", *rows, self.theta, mu)
        upper = np.triu_indices(size)
        active = np.count_nonzero(pushed, axis=0)
        penalty = (jac.T * (rho * active)) @ jac
        triangle = second[-len(upper[0]) :] + penalty[upper]
        amiss = float((np.maximum(over, -multipliers / rho) ** 2).sum())
        vector = np.concatenate([[value], grad + mu @ jac, triangle, [loss, amiss]])
        return vector, pushed

    def read(self, problem: Problem, vector: Floats) -> tuple[Sums, float, float]:
        """The sums of the augmented Lagrangian, the plain loss and what is amiss, squared."""
        sums = unflatten(vector[:-2], Order.SECOND, problem.model.size, 0)
        none = np.zeros((0, problem.model.size))
        return replace(sums, d=none[:, 0], jac=none), float(vector[-2]), float(vector[-1])

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """The plain loss is a mean of losses; at theta = 0 it is log C and no silo has a gap."""
        value, loss, amiss = vector[0], vector[-2], vector[-1]
        if min(loss, amiss) < -ROUNDING:
            return "the mean loss is negative, or a sum of squares is"
        if self.theta.any() or not problem.model.linear:
            return ""
        rows = Totals.from_vector(self.totals, *problem.layout).rows
        share = known.rows / rows if known.alone and known.rows is not None else 1.0
        # What a silo's classes weigh, only the silo knows.
        counted = not known.alone or (known.rows is not None and problem.class_weight is None)
        if counted and abs(loss - share * np.log(problem.classes)) > ROUNDING:
            return "the mean loss of a model without weights is not log(classes)"
        gaps = all(one.sides(*problem.shape)[1].any() for one in problem.constraints)
        if gaps and not self.turn and max(abs(value - loss), amiss) > ROUNDING:
            return "a model without weights has a gap between groups"
        return ""
