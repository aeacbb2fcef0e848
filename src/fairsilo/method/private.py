"""FedFair and FedAvg under differential privacy: the same problem, from noisy sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp import Clip, Mechanism, Plan
from fairsilo.engine import Private, Watch, numbers_down
from fairsilo.fairness import Dgeo
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.solver import Noisy, Solver


@dataclass(frozen=True)
class Guarded:
    """What a private training goes by: the silos' noise, its plan, the clipping, noisy counts."""

    mechanism: Mechanism
    plan: Plan
    clip: Clip
    counts: Floats


def solver_under_noise(solver: Solver, rounds: int, noise: float, clip: Clip) -> Solver:
    """The solver for sums whose gradients have that noise in a coordinate: Newton has its own."""
    return Noisy(rounds, noise, clip.curvature) if solver.name == "newton" else solver


def train_private(task: Task, guard: Guarded, watch: Watch | None = None) -> tuple[Task, Trained]:
    """Train, and the task with the solver that noise made of it."""
    engine = Private(
        task.model,
        task.federation,
        [one for one in task.constraints if isinstance(one, Dgeo)],
        guard.counts,
        guard.mechanism,
        guard.plan,
        guard.clip,
        whole=task.engine == "pooled",
    )
    solver = solver_under_noise(task.solver, task.rounds, engine.gradient_noise, guard.clip)
    task = replace(task, solver=solver)
    start = task.model.start(task.seed)
    limits = np.full(len(task.constraints), task.epsilon)
    outcome = engine.solve(task.solver, start, limits, task.rounds, watch)
    size, pairs = task.model.size, len(task.constraints)
    up = (len(engine.server.cells) + 1) * (1 + size)
    predictor = Plain(task.model, outcome.theta)
    return task, Trained((predictor,), outcome, up, numbers_down(size, pairs))
