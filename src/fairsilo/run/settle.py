"""What is settled before training: pairs of features, and the strength of the penalty.

auto         by AIC, as the fit without a limit goes (`solver.strengths`); then frozen, and the
             limit starts from the optimum of that fit
validation   of a few strengths the one with the lowest loss on rows that each silo sets aside

Under differential privacy the model's own default is neither: the noise decides (`run.penalty`).

Pairs are found at the optimum of the curves without a limit. The encoder then has more columns, so
that silos learn a new one, and the fit goes on from where it stood with the strengths it had.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data import Encoder
from fairsilo.engine import Changed, Engine
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.method.fedavg import unconstrained
from fairsilo.question import Problem, Round
from fairsilo.run.choices import FEWEST_ROUNDS
from fairsilo.run.crossing import check_named, named, strongest
from fairsilo.run.decide import check_two_classes
from fairsilo.run.options import BY_AIC, Options
from fairsilo.run.penalty import by_noise, first_penalty, rows_alike
from fairsilo.run.problem import Posed, plan
from fairsilo.solver import Newton, Order, Outcome, Status
from fairsilo.solver.penalty import Penalty
from fairsilo.solver.strengths import Choosing

TRIED = tuple(10.0**k for k in range(-2, 5))
"""The strengths that `validation` tries."""
FIRST, OF_PAIRS = 1.0, 300.0
"""The strengths from which `auto` starts, of features and of pairs."""
LEAST_OF_PAIRS = 30.0
"""Pairs are many cells of few rows, where AIC's quadratic model errs towards weak penalties. Chosen
on validation rows of ADULT and COMPAS (`benchmarks.pair_penalty`, three seeds): 30 is within 0.0003
of the lowest loss on both, 1 is best on ADULT and costs 0.0015 on COMPAS. Some of these rows are
test rows of other seeds of `benchmarks.additive`."""
ROUGHLY = 1e-4
"""The tolerance of the curves' fit where pairs are looked for at its end: a fit with them follows.
From there on ADULT's curves would take six rounds more to Newton's own tolerance."""
CHANGES_OF_PAIRS = 3
"""Rounds in which their strengths are chosen."""

Learn = Callable[[Encoder], tuple[Posed, Engine]]
"""Tell the silos of an encoder with more columns: what is trained then, and who answers."""


@dataclass(frozen=True)
class Settled:
    """The problem as it is trained, and what it took to get there."""

    problem: Problem
    rounds: int = 0
    """Rounds of models that were trained on the way."""
    free: Outcome | None = None
    """The fit without a limit under the chosen penalty, where there was one."""
    counted: float = 0.0
    """What the rows of that fit weigh: after the loss of a silo there are fewer."""
    notes: tuple[str, ...] = ()
    """What a reader must know: whether training stops early."""
    stops: bool = False
    """Whether the problem has fewer rounds than were allowed, by rows set aside."""
    posed: Posed | None = None
    engine: Engine | None = None
    """Those after the silos learned of pairs; None: those from before."""

    @property
    def fit(self) -> Outcome | None:
        """The fit without a limit, where it is of all columns: pairs may have come later."""
        size = self.problem.model.size
        return self.free if self.free is not None and len(self.free.theta) == size else None


def settle(
    options: Options, posed: Posed, problem: Problem, engine: Engine, learn: Learn | None = None
) -> Settled:
    """The problem with its pairs and its penalty; without `learn` there are no pairs."""
    for name in filter(None, (options.method, options.after)):
        METHODS[name].check(problem)
    check_two_classes(options.decide_at, problem)
    check_named(options.crossed, [feature.name for feature in posed.schema.features])
    if options.target_confidence is None:
        return _settled(options, posed, problem, engine, learn)
    # Nothing is chosen by the rows that the promise is tested on. The fit is not of all rows.
    found = _settled(options, posed, replace(problem, rest=True), engine, learn)
    return replace(found, problem=replace(found.problem, rest=False), free=None)


def _settled(
    options: Options, posed: Posed, problem: Problem, engine: Engine, learn: Learn | None
) -> Settled:
    """The same by the rows of the problem."""
    wanted = options.crossed if learn is not None else None
    if wanted and isinstance(wanted, int):
        problem = _roughly(problem)
    while True:
        try:
            settled = _penalised(options, posed, problem, engine)
            if not wanted or learn is None:
                return _stopping(settled, engine) if options.early_stopping else settled
            if isinstance(wanted, int):
                settled = _fitted(settled, engine)
                assert settled.free is not None
                free, theta = unconstrained(settled.problem), settled.free.theta
                encoder = strongest(wanted, posed, free, theta, engine)
            else:
                encoder = named(wanted, posed)
            break
        except Changed as change:
            # A silo was lost: again with the others.
            problem = change.anew(problem)
    return _crossed(options, settled, encoder, learn)


def _roughly(problem: Problem) -> Problem:
    """The same with a looser tolerance, where Newton solves it."""
    solver = problem.solver
    if not isinstance(solver, Newton):
        return problem
    return replace(problem, solver=replace(solver, tolerance=max(solver.tolerance, ROUGHLY)))


def _crossed(options: Options, before: Settled, encoder: Encoder, learn: Learn) -> Settled:
    """From the fit of the curves on to that of curves and pairs."""
    posed, engine = learn(encoder)
    problem = replace(plan(options, posed), rest=before.problem.rest)
    if before.free is not None:
        theta = np.zeros(problem.model.size)
        theta[: len(before.free.theta)] = before.free.theta
        problem = replace(problem, model=problem.model.starting_at(theta))
    after = _penalised(options, posed, problem, engine, before.problem.penalty)
    return replace(after, rounds=before.rounds + after.rounds, posed=posed, engine=engine)


def _penalised(
    options: Options,
    posed: Posed,
    problem: Problem,
    engine: Engine,
    before: Penalty | Choosing | None = None,
) -> Settled:
    """The problem with its penalty; the strengths of `before` are kept."""
    strength = options.strength
    if strength is None:
        return Settled(problem)
    weight = engine.count(replace(problem, rest=False)).in_objective(problem.class_weight)
    chosen = strength in ("auto", "validation") and problem.promise is None
    rows = rows_alike(problem, engine) if chosen else weight
    penalty = first_penalty(posed, problem, rows)
    if strength == "auto" and problem.promise is not None:
        trained = problem if METHODS[options.method].limited else unconstrained(problem)
        noise = engine.noise(trained) * weight / math.sqrt(problem.rounds)
        return Settled(replace(problem, penalty=by_noise(penalty, noise)))
    if strength == "auto":
        return _by_aic(problem, penalty, engine, before)
    if strength == "validation" and not isinstance(before, Penalty):
        return _by_validation(problem, penalty, engine)
    given = before.strengths[0] if isinstance(before, Penalty) else float(strength)
    same = penalty.of_strengths([given] * len(penalty.terms))
    return Settled(replace(problem, penalty=same))


def _fitted(settled: Settled, engine: Engine) -> Settled:
    """With the fit without a limit."""
    if settled.free is not None:
        return settled
    free = engine.solve(unconstrained(settled.problem))
    return replace(settled, free=free, rounds=settled.rounds + free.rounds)


def _by_aic(
    problem: Problem, penalty: Penalty, engine: Engine, before: Penalty | Choosing | None = None
) -> Settled:
    if not problem.model.linear or not isinstance(problem.solver, Newton):
        raise FairSiloError(BY_AIC)
    kept = before.strengths if isinstance(before, Penalty) else ()
    more = len(penalty.terms) - len(kept)
    if kept:
        first = penalty.of_strengths((*kept, *(OF_PAIRS,) * more))
        choosing = Choosing(first, len(kept), LEAST_OF_PAIRS, CHANGES_OF_PAIRS)
    else:
        choosing = Choosing(penalty.of_strengths((FIRST,) * more))
    free = engine.solve(replace(unconstrained(problem), penalty=choosing))
    limited = replace(problem, penalty=choosing.now, model=problem.model.starting_at(free.theta))
    return Settled(limited, free.rounds, free, engine.count(problem).rows)


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


def _stopping(settled: Settled, engine: Engine) -> Settled:
    """As many rounds as serve the rows set aside best: twice as many are tried each time, without
    a limit, until their loss has risen twice or training ends by itself."""
    whole = settled.problem
    rest = replace(unconstrained(whole), rest=True)
    tried: list[int] = []
    losses: list[float] = []
    rounds, going = FEWEST_ROUNDS, True
    while going and rounds <= whole.rounds:
        outcome = engine.solve(replace(rest, rounds=rounds))
        tried.append(outcome.rounds)
        losses.append(_loss_aside(rest, engine, outcome.theta))
        rising = len(losses) > 2 and min(losses[-2:]) > min(losses[:-2])
        going, rounds = outcome.status is Status.RUNNING and not rising, 2 * rounds
    spent = replace(settled, rounds=settled.rounds + sum(tried))
    best = int(np.argmin(losses))
    if best + 1 >= len(losses):
        note = (
            f"training does not stop early: the loss of the rows set aside was lowest after the "
            f"most rounds that were tried, {tried[-1]}"
        )
        return replace(spent, notes=(note,))
    note = (
        f"training stops after {tried[best]} of at most {whole.rounds} rounds: the loss of the "
        "rows set aside was lowest there"
    )
    return replace(spent, problem=replace(whole, rounds=tried[best]), notes=(note,), stops=True)


def _loss_aside(rest: Problem, engine: Engine, theta: Floats) -> float:
    """The loss of the rows set aside, up to a factor: what the others leave of the loss of all.

    Both are asked for with the totals of all rows, so that a row weighs the same in both.
    """
    totals = engine.count(replace(rest, rest=False)).to_vector()
    sums = []
    for problem in (replace(rest, rest=False), rest):
        order = Order.LAGRANGIAN.value
        question = Round(np.asarray(theta), np.zeros(0), order, totals, problem.rest, limited=False)
        sums.append(float(engine.ask(problem, question).loss))
    return sums[0] - sums[1]
