"""A target in rates that is promised for the population: Learn then Test, in a fixed sequence.

Every silo sets a fifth of its training rows aside. On the others, models are trained to a path of
limits, from a fifth of the target to the target itself. Then, from the strictest model on, each is
tested on the rows set aside: H0 "its gap in the population is above the target". The path does not
depend on those rows, so the tests go on at the full level while H0 is rejected (fixed-sequence
testing; Angelopoulos, Bates, Candes, Jordan, Lei 2021), and the last model that passed is taken:
the chance that its gap is above the target is at most 1 - confidence.

Of several constraints all must pass, each at the full level: if one gap is above the target, its
own test lets the model through with that chance at most.
"""

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Engine
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.exact import gap_above, rows_needed
from fairsilo.evaluate.metrics import rate_sides
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint
from fairsilo.method.base import Trained, who_takes_part
from fairsilo.method.fedavg import unconstrained
from fairsilo.method.target import by_the_same_silos, reach_from
from fairsilo.question.base import Problem
from fairsilo.question.evaluate import Evaluate
from fairsilo.solver import Watch

PATH = (0.2, 0.4, 0.6, 0.8, 1.0)
"""The limits, as shares of the target."""


@dataclass(frozen=True)
class Tested:
    """One constraint of one model on the rows set aside."""

    hits: tuple[int, int]
    rows: tuple[int, int]

    @classmethod
    def of(cls, tally: Tally, constraint: Constraint) -> "Tested":
        """The two sides' counts."""
        (m, a, _), (n, b, _) = rate_sides(tally, constraint)
        return cls((round(a), round(b)), (int(m), int(n)))

    @property
    def rate(self) -> float:
        """Of both sides together."""
        return sum(self.hits) / max(sum(self.rows), 1)

    @property
    def gap(self) -> float:
        """The difference of the rates."""
        a, b = (h / max(m, 1) for h, m in zip(self.hits, self.rows, strict=True))
        return abs(a - b)


def promise(
    problem: Problem, engine: Engine, target: float, confidence: float, watch: Watch | None = None
) -> Trained:
    """The loosest model of the path that passes, or an error that says how many rows it takes."""
    rest = replace(problem, rest=True)
    return by_the_same_silos(engine, lambda: _promised(rest, engine, target, confidence, watch))


def _promised(
    rest: Problem, engine: Engine, target: float, confidence: float, watch: Watch | None
) -> Trained:
    """By training on `rest` and testing on the rows set aside."""
    free = engine.solve(unconstrained(rest), watch)
    _enough(_tested(rest, engine, free.theta), target, confidence)
    models, last, rounds = list[Trained](), free, free.rounds
    for share in reversed(PATH):
        # From loose to strict: each starts from the one before it.
        found = reach_from(rest, engine, share * target, last, watch)
        rounds += found.rounds_before + found.outcome.rounds - last.rounds
        models.insert(0, found)
        last = found.outcome
    passed, tests = -1, list[Tested]()
    for place, one in enumerate(models):
        tests = _tested(rest, engine, one.outcome.theta)
        worst = max(gap_above(each.hits, each.rows, target) for each in tests)
        if worst > 1 - confidence:
            break
        passed, p = place, worst
    if passed < 0:
        raise _too_few(tests, target, confidence, trained=True)
    best = models[passed]
    seen = max(_tested(rest, engine, best.outcome.theta), key=lambda each: each.gap)
    note = (
        f"of {len(models)} models, trained to limits from {PATH[0] * target:g} to {target:g}, the "
        f"one with the limit {PATH[passed] * target:g} was taken: on {seen.rows[0]:,} and "
        f"{seen.rows[1]:,} rows set aside its rates are {seen.gap:.4f} apart, so that in the "
        f"population they are within {target:g} with {100 * confidence:g}% confidence (p = {p:.2g})"
    )
    notes = (*who_takes_part(rest, engine), note, *best.notes)
    return replace(best, notes=notes, rounds_before=rounds - best.outcome.rounds)


def _tested(problem: Problem, engine: Engine, theta: Floats) -> list[Tested]:
    asked = Evaluate(np.asarray(theta), part="aside", cut=problem.model.cut)
    aside, _ = engine.ask(problem, asked)
    return [Tested.of(aside.tally, one) for one in problem.constraints]


def _enough(tests: list[Tested], target: float, confidence: float) -> None:
    """Refuse before the models are trained where not even equal rates would pass."""
    deviations = NormalDist().inv_cdf(confidence)
    for each in tests:
        if not all(each.rows):
            raise _too_few(tests, target, confidence)
        spread = each.rate * (1 - each.rate) * sum(1 / m for m in each.rows)
        if deviations * spread**0.5 > target:
            raise _too_few(tests, target, confidence)


def _too_few(
    tests: list[Tested], target: float, confidence: float, trained: bool = False
) -> FairSiloError:
    """How many rows it takes; of a model `trained` to a limit, with the gap that is left."""
    smallest = min(min(each.rows) for each in tests)
    # What is left of the target; a gap that is as large by chance is not taken at its word.
    left = [max(target - each.gap * trained, target / 4) for each in tests]
    needed = max(
        rows_needed(each.rate, room, confidence) for each, room in zip(tests, left, strict=True)
    )
    return FairSiloError(
        f"`target_confidence` {confidence:g} cannot be promised: of the rows set aside, the "
        f"smallest of the compared groups has {smallest:,}, and a `target_deo` of {target:g} needs "
        f"about {needed:,} of each: give more training rows (a fifth is set aside), a larger "
        "`target_deo` or a lower `target_confidence`"
    )
