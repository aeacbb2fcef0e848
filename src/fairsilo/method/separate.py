"""ST, separate training: every client solves the constrained problem alone on its own rows.

    for each i:  min_theta L_i(theta)   s.t.  |D_i(theta)| <= epsilon

N models; nothing is sent. All N solves are the runs of one batched program.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairsilo.compute import jax
from fairsilo.engine import Outcome, Pooled, Watch, even
from fairsilo.fairness.constraint import Totals, count_cells
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.method.stacked import batches, stack
from fairsilo.solver import Agp, Record, Status

WORST_FIRST = (Status.DIVERGED, Status.STALLED, Status.RUNNING, Status.CONVERGED)


def st(task: Task, watch: Watch | None = None) -> Trained:
    """One model per client, each trained on that client's rows under its own constraint.

    A client with one class only has its optimum at infinity: the damped solver stops there when
    the gradient is below its tolerance. `watch` sees the first client.
    """
    return st_many([task], [task.epsilon], watch)[0][0]


def st_many(
    tasks: Sequence[Task],
    epsilons: Sequence[float | tuple[float, ...]],
    watch: Watch | None = None,
    thin: bool = False,
) -> list[list[Trained]]:
    """Every task with every epsilon: all clients of all tasks in one program (see `solve_many`)."""
    first = tasks[0]
    dtype = np.float32 if isinstance(first.solver, Agp) else np.float64
    solved: dict[tuple[int, int], list[Outcome]] = {}
    groups = [batches(task.federation) for task in tasks]
    together = all(other == groups[0] for other in groups)
    for group in [range(len(tasks))] if together else [[t] for t in range(len(tasks))]:
        for clients in groups[group[0]]:
            tables = [stack(tasks[t].federation, clients, first.constraints) for t in group]
            rows = jax.tree.map(lambda *parts: np.concatenate(parts), *even(tables))
            starts = [tasks[t].model.start(tasks[t].seed) for t in group for _ in clients]
            limits = [np.broadcast_to(epsilon, len(first.constraints)) for epsilon in epsilons]
            outcomes = iter(
                Pooled(first.model, rows, dtype).solve_many(
                    first.solver,
                    np.repeat(starts, len(epsilons), axis=0),
                    np.tile(limits, (len(starts), 1)),
                    first.rounds,
                    watch,
                    thin,
                )
            )
            for t in group:
                for client in clients:
                    solved[t, client] = [next(outcomes) for _ in epsilons]
    return [
        [
            _trained(task, [solved[t, client][e] for client in range(task.federation.clients)])
            for e in range(len(epsilons))
        ]
        for t, task in enumerate(tasks)
    ]


def _trained(task: Task, outcomes: Sequence[Outcome]) -> Trained:
    predictors = tuple(Plain(task.model, outcome.theta) for outcome in outcomes)
    return Trained(predictors, summarise(outcomes), 0, 0, _notes(task, outcomes))


def summarise(outcomes: Sequence[Outcome]) -> Outcome:
    """N solves as one: the most rounds, the worst status, theta as (N, p).

    The history has the mean over clients of loss, D and mu, and the largest step, residual and
    violation, so that its last row says what the status says. A client that is done keeps its
    last values.
    """
    rounds = max(outcome.rounds for outcome in outcomes)

    def line_up(*leaves: np.ndarray) -> np.ndarray:
        longest = max(map(len, leaves))  # fewer than the rounds where histories are thin
        missing = [(0, longest - len(leaf)) for leaf in leaves]
        return np.stack(
            [
                np.pad(leaf, [fill] + [(0, 0)] * (leaf.ndim - 1), mode="edge")
                for leaf, fill in zip(leaves, missing, strict=True)
            ]
        )

    every: Record = jax.tree.map(line_up, *(outcome.history for outcome in outcomes))
    history = Record(
        loss=every.loss.mean(0),
        d=every.d.mean(0),
        mu=every.mu.mean(0),
        step=every.step.max(0),
        residual=every.residual.max(0),
        violation=every.violation.max(0),
    )
    statuses = {outcome.status for outcome in outcomes}
    worst = next(status for status in WORST_FIRST if status in statuses)
    return Outcome(np.stack([outcome.theta for outcome in outcomes]), worst, rounds, history)


def _notes(task: Task, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """How many clients had no constraint, one class only, or did not converge."""
    federation = task.federation
    cells = [
        count_cells(federation.y[silo], federation.s[silo], federation.groups, federation.classes)
        for silo in federation.silos()
    ]
    counts = {
        "have no row in one of the constrained cells and train without that constraint": sum(
            not Totals.of_silo(own, task.constraints).taking_part.all() for own in cells
        ),
        "have rows of one class only, for which the best model answers that class always": sum(
            np.count_nonzero(own.sum(axis=0)) == 1 for own in cells
        ),
        "did not converge": sum(one.status is not Status.CONVERGED for one in outcomes),
    }
    return tuple(
        f"{count} of {federation.clients} clients {what}" for what, count in counts.items() if count
    )
