"""FedFair, the paper's method: one constraint per pair of groups, estimated over all silos."""

from fairsilo.engine.base import Engine
from fairsilo.method.base import Method, Trained, solved, who_takes_part
from fairsilo.question.base import Problem
from fairsilo.solver.base import Watch


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """Solve the constrained problem."""
    return solved(problem, engine.solve(problem, watch), who_takes_part(problem, engine))


fedfair = Method(
    name="fedfair",
    title="FedFair",
    words="FedFair: all clients train one model together, under a common fairness limit",
    train=train,
    asks=("round", "cells"),
    limits="loss",
    shared=True,
    private=True,
    works=True,
    targets=True,
    weighted=True,
)
