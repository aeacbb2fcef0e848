"""Post-processing: any training, then every silo repairs the labels of the model on its own rows.

What a silo's repair needs of its rows are sums (`predictor.hits`). The repaired model stays in
the silo. EO and CEO differ in what they make of these sums.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine.base import Engine
from fairsilo.method.base import Change, Method, Train, Trained, only_pair
from fairsilo.method.fedavg import fedavg
from fairsilo.predictor.base import Plain
from fairsilo.predictor.hits import Fit, Hits
from fairsilo.question.base import Problem, Question, Silo, Unfit, fitting
from fairsilo.question.plausible import NOTHING, Known, whole_counts
from fairsilo.solver.base import Watch

FITS: dict[str, Fit] = {}
"""The repairs by name."""


@dataclass(frozen=True, eq=False)
class Repair(Question, kind="repair"):
    """Fit a repair of the model theta, or of the silo's own, and keep the repaired model."""

    fit: str
    theta: Floats
    """Without numbers: the silo's own model."""

    def check(self, problem: Problem) -> None:
        """The repair is known, and theta has the model's size."""
        if self.fit not in FITS:
            raise Unfit(f"the repair {self.fit!r} is unknown")
        if self.theta.size:
            fitting(self, theta=(problem.model.size,))

    def length(self, problem: Problem) -> int:
        """One, and one if there was something to fit."""
        return 2

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Whether both groups have rows of both classes."""
        pair, part = only_pair(problem, self.fit), silo.train
        base = Plain(problem.model, self.theta) if self.theta.size else silo.own
        if base is None:
            raise Unfit("this silo has no model of its own in this training")
        score = base.probabilities(part.x, part.s)[:, pair.c]
        hits = Hits.of(pair, part.y, part.s, base.labels(part.x, part.s, problem.seed), score)
        silo.own = FITS[self.fit](base, pair, hits, silo.index)
        return np.array([1.0, float(hits.complete)])

    def read(self, problem: Problem, vector: Floats) -> tuple[int, int]:
        """How many silos there are, and how many had something to fit."""
        return round(vector[0]), round(vector[1])

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Every silo counts itself once."""
        if vector[1] > vector[0] + 0.5 or vector[0] > (known.silos or np.inf) + 0.5:
            return "there are more silos than were asked"
        return whole_counts(vector)


def repaired(
    problem: Problem, engine: Engine, trained: Trained, fit: str, after: Method = fedavg
) -> Trained:
    """Every silo repairs the common model, or its own where each has one (`after` ST)."""
    first = trained.predictors[0] if len(trained.predictors) == 1 else None
    theta = first.theta if isinstance(first, Plain) and not after.own_models else np.zeros(0)
    clients, complete = engine.ask(problem, Repair(fit, theta))
    note = (
        f"{clients - complete} of {clients} clients lack a class in one of the two groups, so that "
        f"there is nothing to fit: they keep the labels of {after.title}",
    )
    notes = (*trained.notes, *(note if complete < clients else ()))
    return replace(trained, predictors=engine.own(), notes=notes)


def train_and_repair(repair: Change, after: Method = fedavg) -> Train:
    """The training of a method that repairs."""

    def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
        return repair(problem, engine, after(problem, engine, watch), after=after)

    return train
