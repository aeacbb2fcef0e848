"""FedFair to a target in rates: "the true-positive rates of the groups within two points".

A limit on losses bounds no rate. Two ways to one:

    proxy    the constraint is the gap of rates itself. Steps follow a smooth surrogate of it, the
             multipliers see the true rates (`solver.rates`). Training without limits comes first:
             where its model keeps to the target it is the answer, else the constrained training
             starts from it. (From a constant start, which has no gap in rates, every step raises
             one, and a network would stay constant.)
    search   constraints on losses as ever, and the largest epsilon that keeps the rates within
             the target on the rows trained on and those set aside at every client
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Engine, Pooled, solve_many
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import rate_gap
from fairsilo.fairness.constraint import Totals
from fairsilo.method.base import Trained, missed_target, solved, who_takes_part
from fairsilo.method.fedavg import unconstrained
from fairsilo.question.base import Problem
from fairsilo.question.evaluate import Evaluate
from fairsilo.solver import Agp, Outcome, Rates, Status, Watch

FINEST = 1e-3
"""Rates are steps: a gap at most a thousandth, or two rows of a cell, below its limit is at it."""
CANDIDATES = 8
"""So many epsilons are tried at once; then as many between the best of them and the next."""
NO_LIMIT = 1e3


def proxy(problem: Problem, totals: Totals, target: float) -> Problem:
    """The problem with its limits on the gaps of rates themselves, to begin without limits."""
    sides = [side for one in problem.constraints for side in one.sides(*problem.shape)]
    rows = min(int(totals.cells[side].sum()) for side in sides)
    # A power of two, so that tables of about the same size share a compiled program.
    steps = 2.0 ** -np.ceil(np.log2(max(rows, 2) / 2))
    width = min(target, max(FINEST, float(steps)))
    solver: Any = problem.solver
    if isinstance(solver, Agp):
        solver = replace(solver, width=width)
    return replace(problem, epsilon=target, measure="rate", solver=Rates(solver, width, free=True))


def reach(
    problem: Problem,
    engine: Engine,
    target: float,
    watch: Watch | None = None,
    free: Outcome | None = None,
) -> Trained:
    """The model within the target, by the proxy; `free`: training without limits came before."""
    known = [] if free is None else [free]

    def train() -> Trained:
        if known:
            # Its rounds are counted already. After the loss of a silo it is of other rows.
            before = known.pop()
            found = reach_from(problem, engine, target, before, watch)
            return replace(found, rounds_before=found.rounds_before - before.rounds)
        return reach_from(
            problem, engine, target, engine.solve(unconstrained(problem), watch), watch
        )

    trained = by_the_same_silos(engine, train)
    return replace(trained, notes=(*who_takes_part(problem, engine), *trained.notes))


def by_the_same_silos(engine: Engine, train: Callable[[], Trained]) -> Trained:
    """What `train` gives, begun anew where a silo was lost on the way: all models that are
    compared, or built on one another, are of the same rows."""
    wasted = 0
    while True:
        silos = engine.clients
        trained = train()
        if engine.clients == silos:
            return replace(trained, rounds_before=trained.rounds_before + wasted)
        wasted += trained.rounds_before + trained.outcome.rounds


def reach_from(
    problem: Problem, engine: Engine, target: float, free: Outcome, watch: Watch | None = None
) -> Trained:
    """`reach`, where training without limits has ended; its rounds are among those of the model."""
    aimed = proxy(problem, engine.count(problem, unweighted=True), target)
    aimed = replace(aimed, begin=free.theta)
    diverged = free.status is Status.DIVERGED
    # The first round tells the gaps of the model without limits.
    outcome = engine.solve(replace(aimed, rounds=1) if diverged else aimed, watch)
    if diverged or np.abs(outcome.history.d[0]).max() <= target:
        kept = replace(outcome, theta=free.theta, status=free.status, rounds=free.rounds)
        return replace(solved(aimed, kept), rounds_before=outcome.rounds)
    trained = solved(aimed, outcome, _ending(aimed, outcome, target))
    return replace(trained, rounds_before=free.rounds)


def _ending(aimed: Problem, outcome: Outcome, target: float) -> tuple[str, ...]:
    """Notes where the rates of the training rows are further apart than the target, or less."""
    if outcome.status is Status.DIVERGED:
        return ()
    gaps, solver = np.abs(outcome.last.d), aimed.solver
    bound = outcome.last.mu != 0
    below = float(np.max(target - gaps, where=bound, initial=0.0))
    notes = missed_target(float(gaps.max()), target)
    if outcome.status is Status.STALLED and gaps.max() <= target:
        notes += (
            "of the models within the target that training came by, the one with the lowest loss "
            "was taken: none was found at which training can rest with as low a loss",
        )
    elif isinstance(solver, Rates) and below > solver.width:
        which = "one of several differences" if np.count_nonzero(bound) > 1 else "a difference"
        notes += (
            f"the target binds, and {which} of rates ends {below:.4f} below it: no model nearer to "
            "it was found, as rates move in steps",
        )
    return notes


def search(problem: Problem, engine: Engine, target: float, watch: Watch | None = None) -> Trained:
    """Look for the epsilon of losses that meets the target; the model keeps to the rows it saw."""
    if engine.count(problem, unweighted=True).rows < 10 * engine.clients:
        raise FairSiloError(
            "`target_by` search sets a fifth of every client's rows aside and the clients have "
            "too few: use `target_by` proxy"
        )
    return by_the_same_silos(engine, lambda: _best(problem, engine, target, watch))


def _best(problem: Problem, engine: Engine, target: float, watch: Watch | None) -> Trained:
    """Of all models that were tried."""
    tried, gaps = _tried(problem, engine, target, watch)
    meets = [k for k, found in enumerate(gaps) if found <= target]
    best = max(meets, key=lambda k: tried[k][0]) if meets else int(np.argmin(gaps))
    epsilon, outcome = tried[best]
    note = (
        f"of {len(tried)} models trained, the one with epsilon {epsilon:.4f} was taken: its rates "
        f"are {gaps[best]:.4f} apart on the rows trained on and those set aside"
    )
    if best == 0 and meets:
        note = (
            "no limit binds: without one the rates are "
            f"{gaps[0]:.4f} apart on the rows trained on and those set aside, of at most {target:g}"
        )
    said = f"target missed: no epsilon brings the rates within {target:g} of each other"
    missed = () if meets else (said,)
    return replace(
        solved(
            problem, outcome, (*who_takes_part(replace(problem, rest=True), engine), note, *missed)
        ),
        rounds_before=sum(one.rounds for _, one in tried) - outcome.rounds,
        epsilon=epsilon,
    )


def _tried(
    problem: Problem, engine: Engine, target: float, watch: Watch | None
) -> tuple[list[tuple[float, Outcome]], list[float]]:
    """The models by their epsilon, and their gaps; not all of them where a silo is lost."""
    rest, silos = replace(problem, rest=True), engine.clients
    (free,) = _solve(rest, engine, [NO_LIMIT], watch)
    tried = [(float(np.abs(free.last.d).max()), free)]
    gaps = [gap(problem, engine, free.theta)]

    def more(epsilons: Floats) -> None:
        values = [float(one) for one in epsilons]
        if engine.clients < silos:
            return
        for epsilon, outcome in zip(values, _solve(rest, engine, values, watch), strict=True):
            tried.append((epsilon, outcome))
            gaps.append(gap(problem, engine, outcome.theta))

    if gaps[0] > target:
        top = tried[0][0]
        more(np.linspace(0.0, top, CANDIDATES, endpoint=False))
        low = max((e for (e, _), g in zip(tried, gaps, strict=True) if g <= target), default=0.0)
        high = min((e for e, _ in tried if e > low), default=top)
        more(np.linspace(low, high, CANDIDATES + 2)[1:-1])
    return tried, gaps


def gap(problem: Problem, engine: Engine, theta: Floats, estimator: str = "pooled") -> float:
    """The largest gap of rates over the constraints, on the rows trained on."""
    part = "rest" if problem.rest else "all"
    train, _ = engine.ask(problem, Evaluate(np.asarray(theta), part=part, cut=problem.model.cut))
    found = gaps_of(problem, train, estimator)
    return max(np.inf if one is None else abs(one) for one in found)


def gaps_of(problem: Problem, evidence: Evidence, estimator: str = "pooled") -> list[float | None]:
    """The gap of rates of every constraint."""
    if estimator == "mean":
        return [evidence.rates.mean(k) for k in range(len(problem.constraints))]
    return [rate_gap(evidence.tally, one) for one in problem.constraints]


def _solve(
    problem: Problem, engine: Engine, epsilons: Sequence[float], watch: Watch | None
) -> list[Outcome]:
    """A model for every epsilon; in one program where all rows are in this process."""
    if isinstance(engine, Pooled):
        return solve_many([problem], [engine], epsilons, watch)[0]
    return [engine.solve(replace(problem, epsilon=one), watch) for one in epsilons]
