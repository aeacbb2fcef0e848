"""Thresholds: after any training of one model, every group gets its own place to decide.

One exchange more: histograms of the training rows' probabilities by group and class, the sums that
`decide_at` is chosen from. The server chooses the cuts (`predictor.thresholds`).
"""

from dataclasses import replace

import numpy as np

from fairsilo.engine.base import Engine
from fairsilo.method.base import Method, Trained, missed_target
from fairsilo.method.fedavg import fedavg
from fairsilo.method.repair import train_and_repair
from fairsilo.predictor.base import Plain
from fairsilo.predictor.thresholds import Thresholds, choose_cuts
from fairsilo.question.base import Problem
from fairsilo.question.evaluate import Evaluate

TARGET = 0.05
"""In rates, where the problem has none."""
WORTH_TELLING = 1e-3
"""In accuracy."""


def decide(problem: Problem, engine: Engine, trained: Trained, after: Method = fedavg) -> Trained:
    """The same model, deciding within the target."""
    (model,) = trained.predictors
    assert isinstance(model, Plain)
    target = TARGET if problem.target is None else problem.target
    train, _ = engine.ask(problem, Evaluate(np.asarray(model.theta), scores="both"))
    found = choose_cuts(train.tally.scores[:, 0], problem.constraints, target)
    notes = list(missed_target(found.gap, target))
    if not found.proved:
        notes.append("the search for thresholds is bounded: those it found are not proved best")
    lost = found.by_lot - found.accuracy
    if found.proved and lost > WORTH_TELLING:
        notes.append(
            f"nobody is decided on by lot: drawing between two thresholds of a group would be "
            f"right in {1000 * lost:.1f} more of 1,000 training rows at the same target"
        )
    return replace(
        trained, predictors=(Thresholds(model, found.cuts),), notes=(*trained.notes, *notes)
    )


thresholds = Method(
    name="thresholds",
    title="Thresholds",
    words="Thresholds: a trained model decides from another probability on in every group",
    train=train_and_repair(decide),
    asks=(),
    targets=True,
    decides=True,
    repair=decide,
)
