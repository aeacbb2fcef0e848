"""FedFair, LCO and FedAvg: one solve each; they differ in which rows weigh what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairsilo.engine import (
    Clientwise,
    Outcome,
    Pooled,
    Rows,
    Watch,
    numbers_down,
    numbers_up,
    stack_silos,
)
from fairsilo.fairness.weigh import totals_of, weigh
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.solver import Agp


def fedfair(task: Task, watch: Watch | None = None) -> Trained:
    """The paper's method: one constraint per pair of groups, estimated over all clients."""
    return _solve(task, watch)


def lco(task: Task, watch: Watch | None = None) -> Trained:
    """Locally constrained optimisation: every client's own estimate is a constraint."""
    return _solve(replace(task, estimator="local"), watch)


def fedavg(task: Task, watch: Watch | None = None) -> Trained:
    """No constraint: the exact federated gradient (one full-batch step a round), or its SQP."""
    return _solve(replace(task, constraints=(), estimator="pooled"), watch)


def _solve(task: Task, watch: Watch | None) -> Trained:
    federation, model = task.federation, task.model
    totals = totals_of(federation, task.constraints)
    w, v = weigh(federation, task.constraints, task.estimator, totals)
    rows = Rows(federation.x, federation.y, w, v)  # type: ignore[arg-type]
    local = task.estimator == "local"
    epsilon = np.full(len(v) * (federation.clients if local else 1), task.epsilon)
    start = model.start(task.seed)
    outcome: Outcome
    if task.engine == "clientwise":
        silos = Clientwise(model, rows, federation.offsets, local=local)
        outcome = silos.solve(task.solver, start, epsilon, task.rounds, watch)
    else:
        dtype = np.float32 if isinstance(task.solver, Agp) else np.float64
        if local:
            rows = stack_silos(rows, federation.offsets)
        pooled = Pooled(model, rows, dtype, local)
        outcome = pooled.solve(task.solver, start, epsilon, task.rounds, watch)
    size, per_client = model.size, len(v)
    return Trained(
        (Plain(model, outcome.theta),),
        outcome,
        # Under `local` a client sends and receives its own constraints only.
        numbers_up(task.solver.order, size, per_client),
        numbers_down(size, per_client),
        _who_takes_part(task, totals.taking_part, federation.clients),
    )


def _who_takes_part(task: Task, taking_part: np.ndarray, clients: int) -> tuple[str, ...]:
    """Say how many clients an average leaves out for want of rows."""
    if task.estimator == "pooled" or not len(taking_part) or taking_part.min() == clients:
        return ()
    return (
        f"{int(clients - taking_part.min())} of {clients} clients have no row in one of the "
        "constrained cells and take no part in the constraint",
    )
