"""What is settled before training: the strength of the penalty.

auto         by AIC, as the fit without a limit goes (`solver.strengths`); then frozen, and the
             limit starts from the optimum of that fit
validation   of a few strengths the one with the lowest loss on rows that each silo sets aside
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Engine
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.method.fedavg import unconstrained
from fairsilo.question import Problem, Round
from fairsilo.run.options import Options
from fairsilo.run.penalty import first_penalty
from fairsilo.run.problem import Posed
from fairsilo.solver import Newton, Order, Outcome
from fairsilo.solver.penalty import Penalty
from fairsilo.solver.strengths import Choosing

TRIED = tuple(10.0**k for k in range(-2, 5))
"""The strengths that `validation` tries."""


@dataclass(frozen=True)
class Settled:
    """The problem as it is trained, and what it took to get there."""

    problem: Problem
    rounds: int = 0
    """Rounds of models that were trained on the way."""
    free: Outcome | None = None
    """The fit without a limit under the chosen penalty, where there was one."""


def settle(options: Options, posed: Posed, problem: Problem, engine: Engine) -> Settled:
    """The problem with its penalty."""
    for name in filter(None, (options.method, options.after)):
        METHODS[name].check(problem)
    strength = options.strength
    if strength is None:
        return Settled(problem)
    penalty = first_penalty(posed, problem, float(engine.count(problem).rows))
    if strength == "validation":
        return _by_validation(problem, penalty, engine)
    if strength == "auto":
        return _by_aic(problem, penalty, engine)
    chosen = penalty.of_strengths([float(strength)] * len(penalty.terms))
    return Settled(replace(problem, penalty=chosen))


def _by_aic(problem: Problem, penalty: Penalty, engine: Engine) -> Settled:
    if not problem.model.linear or not isinstance(problem.solver, Newton):
        raise FairSiloError(
            "`penalty` auto needs a model whose Hessian is exact, and the solver newton: give "
            "`penalty` a number, such as 1, or validation"
        )
    choosing = Choosing(penalty)
    free = engine.solve(replace(unconstrained(problem), penalty=choosing))
    limited = replace(problem, penalty=choosing.now, model=problem.model.starting_at(free.theta))
    return Settled(limited, free.rounds, free)


def _by_validation(problem: Problem, penalty: Penalty, engine: Engine) -> Settled:
    """Train on the rows that are not set aside, without a limit, and look at the others."""
    rest = replace(unconstrained(problem), rest=True)
    losses, rounds = [], 0
    for strength in TRIED:
        tried = penalty.of_strengths([strength] * len(penalty.terms))
        outcome = engine.solve(replace(rest, penalty=tried))
        losses.append(_loss_aside(rest, engine, outcome.theta))
        rounds += outcome.rounds
        rest = replace(rest, model=problem.model.starting_at(outcome.theta))
    best = TRIED[int(np.argmin(losses))]
    chosen = penalty.of_strengths([best] * len(penalty.terms))
    return Settled(replace(problem, penalty=chosen), rounds)


def _loss_aside(rest: Problem, engine: Engine, theta: Floats) -> float:
    """The mean loss of the rows set aside: what the others leave of the loss of all."""
    sums = []
    for problem in (replace(rest, rest=False), rest):
        totals = engine.count(problem)
        order = Order.LAGRANGIAN.value
        question = Round(
            np.asarray(theta), np.zeros(0), order, totals.to_vector(), problem.rest, limited=False
        )
        sums.append((totals.rows, float(engine.ask(problem, question).loss)))
    (whole, over_all), (kept, over_kept) = sums
    return (whole * over_all - kept * over_kept) / (whole - kept)
