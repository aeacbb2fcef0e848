"""FedFair, LCO and FedAvg: one solve each; they differ in which rows weigh what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairsilo.compute import jax
from fairsilo.engine import (
    Clientwise,
    Outcome,
    Pooled,
    Rows,
    Watch,
    even,
    numbers_down,
    numbers_up,
    stack_silos,
)
from fairsilo.fairness.weigh import totals_of, weighted
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.partition.federation import Federation
from fairsilo.solver import Agp


def fedfair(task: Task, watch: Watch | None = None) -> Trained:
    """The paper's method: one constraint per pair of groups, estimated over all clients."""
    return solve(task, watch)


def lco(task: Task, watch: Watch | None = None) -> Trained:
    """Locally constrained optimisation: every client's own estimate is a constraint."""
    return solve(replace(task, estimator="local"), watch)


def fedavg(task: Task, watch: Watch | None = None) -> Trained:
    """No constraint: the exact federated gradient (one full-batch step a round), or its SQP."""
    return solve(replace(task, constraints=(), estimator="pooled", measure="loss"), watch)


def solve(task: Task, watch: Watch | None = None) -> Trained:
    """The constrained problem that the task's estimator and constraints describe."""
    if task.engine == "pooled":
        return solve_many([task], [task.epsilon], watch)[0][0]
    local = task.estimator == "local"
    asked, rows = weighted_rows(task)
    silos = Clientwise(task.model, rows, asked.offsets, local=local, measure=task.measure)
    start, epsilon = task.model.start(task.seed), _epsilons(task, task.epsilon)
    return _trained(task, silos.solve(task.solver, start, epsilon, task.rounds, watch))


def solve_many(
    tasks: Sequence[Task],
    epsilons: Sequence[float | tuple[float, ...]],
    watch: Watch | None = None,
    thin: bool = False,
) -> list[list[Trained]]:
    """Every task with every epsilon, in one program; a list for each task.

    The tasks differ in their rows and seed only. `thin` keeps a short history.
    """
    first = tasks[0]
    local = first.estimator == "local"
    tables = []
    for asked, rows in map(weighted_rows, tasks):
        tables.append(stack_silos(rows, asked.offsets) if local else rows)
    rows = (
        tables[0]
        if len(tables) == 1
        else jax.tree.map(lambda *parts: np.stack(parts), *even(tables))
    )
    dtype = np.float32 if isinstance(first.solver, Agp) else np.float64
    outcomes = Pooled(first.model, rows, dtype, local, first.measure).solve_many(
        first.solver,
        np.repeat([task.model.start(task.seed) for task in tasks], len(epsilons), axis=0),
        np.tile([_epsilons(first, epsilon) for epsilon in epsilons], (len(tasks), 1)),
        first.rounds,
        watch,
        thin,
    )
    each = iter(outcomes)
    return [[_trained(task, next(each)) for _ in epsilons] for task in tasks]


def weighted_rows(task: Task) -> tuple[Federation, Rows]:
    """The rows to ask, with the weights of the task's estimator."""
    asked, w, v = weighted(task.federation, task.constraints, task.estimator, task.min_cell)
    return asked, Rows(asked.x, asked.y, w, v)  # type: ignore[arg-type]


def _epsilons(task: Task, epsilon: float | tuple[float, ...]) -> np.ndarray:
    """One per constraint: per pair, and under `local` per client, too."""
    silos = task.federation.clients if task.estimator == "local" else 1
    return np.tile(np.broadcast_to(epsilon, len(task.constraints)), silos)


def _trained(task: Task, outcome: Outcome) -> Trained:
    # Under `local` a client sends and receives its own constraints only.
    size, pairs = task.model.size, len(task.constraints)
    return Trained(
        (Plain(task.model, outcome.theta),),
        outcome,
        numbers_up(task.solver.order, size, pairs),
        numbers_down(size, pairs),
        _who_takes_part(task),
    )


def _who_takes_part(task: Task) -> tuple[str, ...]:
    """Say how many clients an average leaves out for want of rows."""
    clients = task.federation.clients
    taking_part = totals_of(task.federation, task.constraints, task.min_cell).taking_part
    if not len(taking_part) or taking_part.min() == clients:
        return ()
    count = f"{int(clients - taking_part.min())} of {clients} clients have"
    if task.min_cell > 1:
        fewer = f"{count} fewer than {task.min_cell} rows in one of the constrained cells and"
        if task.estimator == "pooled":
            return (f"{fewer} leave the rows of such cells out of the constraint",)
        return (f"{fewer} take no part in the constraint",)
    if task.estimator == "pooled":
        return ()
    return (f"{count} no row in one of the constrained cells and take no part in the constraint",)
