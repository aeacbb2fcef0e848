"""FedFair to a target in rates: "the true-positive rates of the groups within two points".

A limit on losses bounds no rate. Two ways to one:

    proxy    the constraint is the gap of rates itself. Steps follow a smooth surrogate of it, the
             multipliers see the true rates (`sums.rows`); one solve, on all training rows
    search   constraints on losses as ever, and the largest epsilon that keeps the rates within
             the target on the rows trained on and those set aside at every client

At the proxy's solution grad L + sum_k mu_k grad q_k = 0, and mu_k is zero unless the true gap of
rates is at its limit: an equilibrium of the game of Cotter, Jiang and Sridharan (2019).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Engine, Pooled, solve_many
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.metrics import rate_gap
from fairsilo.fairness.constraint import Totals
from fairsilo.method.base import Trained, solved, who_takes_part
from fairsilo.question.base import Problem
from fairsilo.question.evaluate import Evaluate
from fairsilo.solver import Newton, Outcome, Watch

FINEST = 1e-3
"""Rates are steps, so that a gap meets its limit to a thousandth, or to two rows of a cell."""
CANDIDATES = 8
"""So many epsilons are tried at once; then as many between the best of them and the next."""
NO_LIMIT = 1e3


def proxy(problem: Problem, totals: Totals, target: float) -> Problem:
    """The problem with its limits on the gaps of rates themselves."""
    sides = [side for one in problem.constraints for side in one.sides(*problem.shape)]
    rows = min(int(totals.cells[side].sum()) for side in sides)
    solver: Any = problem.solver
    # A power of two, so that tables of about the same size share a compiled program.
    steps = 2.0 ** -np.floor(np.log2(max(rows, 2) / 2))
    solver = replace(solver, tolerance=max(FINEST, float(steps)))
    if isinstance(solver, Newton) and not problem.model.start(problem.seed).any():
        solver = replace(solver, from_anywhere=True)
    return replace(problem, epsilon=target, measure="rate", solver=solver)


def search(problem: Problem, engine: Engine, target: float, watch: Watch | None = None) -> Trained:
    """Look for the epsilon of losses that meets the target; the model keeps to the rows it saw.

    After the loss of a silo the search begins anew, so that all models are of the same silos.
    """
    if engine.count(problem).rows < 10 * engine.clients:
        raise FairSiloError(
            "`target_by` search sets a fifth of every client's rows aside and the clients have "
            "too few: use `target_by` proxy"
        )
    wasted = 0
    while True:
        tried, gaps, silos = _tried(problem, engine, target, watch)
        if engine.clients == silos:
            break
        wasted += sum(one.rounds for _, one in tried)
    meets = [k for k, found in enumerate(gaps) if found <= target]
    best = max(meets, key=lambda k: tried[k][0]) if meets else int(np.argmin(gaps))
    epsilon, outcome = tried[best]
    note = (
        f"of {len(tried)} models trained, the one with epsilon {epsilon:.4f} was taken: its rates "
        f"are {gaps[best]:.4f} apart on the rows trained on and those set aside"
    )
    missed = () if meets else (f"no epsilon brings the rates within {target:g} of each other",)
    return replace(
        solved(
            problem, outcome, (*who_takes_part(replace(problem, rest=True), engine), note, *missed)
        ),
        rounds_before=wasted + sum(one.rounds for _, one in tried) - outcome.rounds,
        epsilon=epsilon,
    )


def _tried(
    problem: Problem, engine: Engine, target: float, watch: Watch | None
) -> tuple[list[tuple[float, Outcome]], list[float], int]:
    """The models by their epsilon, their gaps, and how many silos the first was trained by.

    Where fewer silos are left in the end, the models are not of the same rows.
    """
    rest = replace(problem, rest=True)
    (free,) = _solve(rest, engine, [NO_LIMIT], watch)
    silos = engine.clients
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
    return tried, gaps, silos


def gap(problem: Problem, engine: Engine, theta: Floats) -> float:
    """The largest gap of rates over the constraints, on all training rows."""
    train, _ = engine.ask(problem, Evaluate(np.asarray(theta)))
    found = [rate_gap(train.tally, one) for one in problem.constraints]
    return max(np.inf if one is None else abs(one) for one in found)


def _solve(
    problem: Problem, engine: Engine, epsilons: Sequence[float], watch: Watch | None
) -> list[Outcome]:
    """A model for every epsilon; in one program where all rows are in this process."""
    if isinstance(engine, Pooled):
        return solve_many([problem], [engine], epsilons, watch)[0]
    return [engine.solve(replace(problem, epsilon=one), watch) for one in epsilons]
