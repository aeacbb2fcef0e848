"""FedFair to a target in rates: "the true-positive rates of the groups within two points".

A limit on losses bounds no rate. Two ways to one:

    proxy    the constraint is the gap of rates itself. Steps follow a smooth surrogate of it, the
             multipliers see the true rates (`engine.sums`); one solve, on all training rows
    search   constraints on losses as ever, and the largest epsilon that keeps the rates within
             the target on the rows trained on and those set aside at every client

At the proxy's solution grad L + sum_k mu_k grad q_k = 0, and mu_k is zero unless the true gap of
rates is at its limit: an equilibrium of the game of Cotter, Jiang and Sridharan (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.engine import Watch
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import row_weights
from fairsilo.fairness.weigh import totals_of
from fairsilo.method.base import Plain, Task, Trained, labels_and_losses
from fairsilo.method.constrained import solve, solve_many
from fairsilo.partition.federation import Federation
from fairsilo.partition.hold_out import hold_out
from fairsilo.solver import Newton

FINEST = 1e-3
"""Rates are steps, so that a gap meets its limit to a thousandth, or to two rows of a cell."""
CANDIDATES = 8
"""So many epsilons are tried at once; then as many between the best of them and the next."""


def proxy(task: Task, target: float) -> Task:
    """The task with its limits on the gaps of rates themselves."""
    totals = totals_of(task.federation, task.constraints)
    sides = [side for one in task.constraints for side in one.sides(*totals.cells.shape)]
    rows = min(int(totals.cells[side].sum()) for side in sides)
    solver: Any = task.solver
    # A power of two, so that tables of about the same size share a compiled program.
    steps = 2.0 ** -np.floor(np.log2(max(rows, 2) / 2))
    solver = replace(solver, tolerance=max(FINEST, float(steps)))
    if isinstance(solver, Newton) and not task.model.start(task.seed).any():
        solver = replace(solver, from_anywhere=True)
    return replace(task, epsilon=target, measure="rate", solver=solver)


def search(task: Task, target: float, watch: Watch | None = None) -> Trained:
    """Look for the epsilon of losses that meets the target; the model keeps to the rows it saw."""
    if task.federation.rows < 10 * task.federation.clients:
        raise FairSiloError(
            "--target-by search sets a fifth of every client's rows aside and the clients have "
            "too few: use --target-by proxy"
        )
    rest, aside = hold_out(task.federation, task.seed)
    inner = replace(task, federation=rest)
    free = solve(replace(inner, epsilon=1e3), watch)
    tried = [(float(np.abs(free.outcome.last.d).max()), free)]
    if gap(inner, tried[0][1], (rest, aside)) > target:
        top = tried[0][0]
        grid = np.linspace(0.0, top, CANDIDATES, endpoint=False)
        tried += _try(inner, grid, watch)
        fits = [e for e, one in tried if gap(inner, one, (rest, aside)) <= target]
        low = max(fits, default=0.0)
        high = min((e for e, _ in tried if e > low), default=top)
        between = np.linspace(low, high, CANDIDATES + 2)[1:-1]
        tried += _try(inner, between, watch)
    gaps = [gap(inner, one, (rest, aside)) for _, one in tried]
    meets = [k for k, found in enumerate(gaps) if found <= target]
    best = max(meets, key=lambda k: tried[k][0]) if meets else int(np.argmin(gaps))
    epsilon, trained = tried[best]
    rounds = sum(one.outcome.rounds for _, one in tried) - trained.outcome.rounds
    note = (
        f"of {len(tried)} models trained, the one with epsilon {epsilon:.4f} was taken: its rates "
        f"are {gaps[best]:.4f} apart on the rows trained on and those set aside"
    )
    missed = () if meets else (f"no epsilon brings the rates within {target:g} of each other",)
    return replace(
        trained, notes=(*trained.notes, note, *missed), rounds_before=rounds, epsilon=epsilon
    )


def gap(task: Task, trained: Trained, parts: Sequence[Federation]) -> float:
    """The largest gap of rates over the constraints, on the union of the parts' rows."""
    whole = Federation(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.s for part in parts]),
        np.array([0, sum(part.rows for part in parts)]),
        parts[0].groups,
        parts[0].classes,
    )
    plain = [one for one in trained.predictors if isinstance(one, Plain)]
    ((labels, _),) = labels_and_losses(plain, whole.x, whole.y)
    totals = totals_of(whole, task.constraints)
    v = row_weights(task.constraints, "pooled", whole.y, whole.s, totals)
    aims = [whole.y if one.claim is None else one.claim for one in task.constraints]
    wrong = np.stack([labels != aim for aim in aims])
    return float(np.abs(np.sum(v * wrong, axis=1)).max())


def _try(
    task: Task, epsilons: Sequence[float] | np.ndarray, watch: Watch | None
) -> list[tuple[float, Trained]]:
    """A model for every epsilon, in one program."""
    values = [float(epsilon) for epsilon in epsilons]
    return list(zip(values, solve_many([task], values, watch)[0], strict=True))
