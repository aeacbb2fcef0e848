"""FedAvg: no constraint. The exact federated gradient (one full-batch step a round), or SQP."""

from dataclasses import replace

from fairsilo.engine.base import Engine
from fairsilo.method.base import Method, Trained, solved
from fairsilo.question.base import Problem
from fairsilo.solver.base import Watch


def unconstrained(problem: Problem) -> Problem:
    """The same training without its constraints."""
    return replace(problem, constraints=(), epsilon=0.0, estimator="pooled", measure="loss")


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """Minimise the loss."""
    free = unconstrained(problem)
    return solved(free, engine.solve(free, watch))


fedavg = Method(
    name="fedavg",
    title="FedAvg",
    words="Federated training without any fairness limit",
    train=train,
    asks=(),
    limited=False,
    private=True,
    works=True,
    weighted=True,
)
