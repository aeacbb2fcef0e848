"""Your own training method, in one file: halve the gap that a model without limits has.

    python examples/own_method.py

A method is a function of (problem, engine). It asks silos questions and gets sums; it does not
know whether the silos are arrays in this process or machines far away. To use it by name, also
over a network where all silos have your package, declare it as an entry point:

    [project.entry-points."fairsilo.methods"]
    half-gap = "own_method:HALF_GAP"
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Clientwise, Engine, Pooled, silos_of
from fairsilo.evaluate.metrics import loss_gap
from fairsilo.fairness import Dgeo
from fairsilo.method import Method, Trained
from fairsilo.method.base import solved
from fairsilo.method.fedavg import unconstrained
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.predictor import Plain
from fairsilo.question import NOTHING, Evaluate, Known, Problem, Question, Silo
from fairsilo.question.base import fitting
from fairsilo.solver import Newton, Watch


@dataclass(frozen=True, eq=False)
class Missed(Question, kind="missed", moving=True, additive=True):
    """A question of its own: of every group, how many rows a guess would serve better."""

    theta: Floats

    def check(self, problem: Problem) -> None:
        """Theta has the model's size."""
        fitting(self, theta=(problem.model.size,))

    def length(self, problem: Problem) -> int:
        """A number for every group."""
        return problem.groups

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows, those with a loss above a guess's."""
        rows = silo.train
        losses = Plain(problem.model, self.theta).losses(rows.x, rows.y, rows.s)
        worse = rows.s[losses > np.log(problem.classes)]
        return np.bincount(worse, minlength=problem.groups).astype(np.float64)

    def read(self, problem: Problem, vector: Floats) -> list[int]:
        """Whole numbers."""
        return [round(count) for count in vector]

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Nothing is counted less than never, or more often than there are rows."""
        if known.rows is not None and vector.sum() > known.rows + 0.5:
            return "more rows are counted than there are"
        return "a count is negative" if (vector < -0.5).any() else ""


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """Train without limits, measure every gap, train again with half of each as its limit."""
    free = engine.solve(unconstrained(problem), watch)
    seen, _ = engine.ask(problem, Evaluate(np.asarray(free.theta)))
    gaps = [abs(loss_gap(seen.tally, one) or 0.0) for one in problem.constraints]
    halved = replace(problem, epsilon=tuple(gap / 2 for gap in gaps))
    fair = engine.solve(halved, watch)
    missed = engine.ask(problem, Missed(np.asarray(fair.theta)))
    notes = (
        f"the gaps without limits were {', '.join(f'{gap:.4f}' for gap in gaps)}",
        f"rows that a guess would serve better, by group: {', '.join(map(str, missed))}",
    )
    return replace(solved(halved, fair, notes), rounds_before=free.rounds)


HALF_GAP = Method(
    name="half-gap",
    title="Half the gap",
    words="Half the gap: one model whose gaps are half of those without limits",
    train=train,
    asks=("round", "missed"),
    limits="loss",
    shared=True,
)


def main() -> None:
    """Train on two engines and get the same model."""
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(900, 3)), rng.integers(0, 2, 900)
    y = (x.sum(axis=1) + s + rng.logistic(size=900) > 0).astype(np.int64)
    federation = Federation.of(x, y, s, np.arange(900) % 3, groups=2, classes=2)
    problem = Problem(
        model=logistic_regression(3),
        constraints=(Dgeo(a=0, b=1, c=1),),
        epsilon=0.0,
        estimator="pooled",
        solver=Newton(),
        rounds=100,
        seed=0,
    )
    for engine in (Pooled(federation), Clientwise(silos_of(federation))):
        trained = HALF_GAP(problem, engine)
        gap = abs(float(trained.outcome.last.d[0]))
        print(f"{type(engine).__name__}: {'; '.join(trained.notes)}; the gap is now {gap:.4f}")


if __name__ == "__main__":
    main()
