"""What silos say of a model on their rows: tallies, and each silo's own gap of every pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.betting import shape_of, wagers_on
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.scores import counted
from fairsilo.evaluate.tally import Tally
from fairsilo.predictor.answers import Answered
from fairsilo.predictor.base import HALF, Plain, Predictor
from fairsilo.predictor.thresholds import Thresholds
from fairsilo.question.base import Part, Problem, Question, Silo, Unfit, fitting
from fairsilo.question.plausible import NOTHING, ROUNDING, Known, other_rows, wrong_tally

Seen = tuple[Evidence | None, Evidence]
"""Evidence of the training rows (None: not asked for) and of the test rows."""


@dataclass(frozen=True, eq=False)
class Evaluate(Question, kind="evaluate"):
    """Evidence of training and test rows under the model theta, or under each silo's own."""

    theta: Floats
    """Without numbers: each silo's own model."""
    test_only: bool = False
    """Leave the training rows out, as differential privacy demands."""
    audit: bool = False
    """An audit sees nothing of cells that a silo finds too small."""
    part: str = "all"
    """Which training rows: all, or those that each silo sets aside, or the rest of them."""

    cut: float = HALF
    """Where a model of two classes decides."""
    cuts: Floats = field(default_factory=lambda: np.zeros(0))
    """The same for each group; without numbers: `cut` for all."""
    scores: str = ""
    """Of which rows histograms of the probabilities, too: "test", "both" or none."""

    @classmethod
    def of(cls, models: Sequence[Predictor], **more: Any) -> Evaluate:
        """About one model as it decides; without one, about each silo's own."""
        (model,) = models if len(models) == 1 else (None,)
        if isinstance(model, Thresholds):
            more["cuts"], model = model.cuts, model.base
        if not isinstance(model, Plain):
            return cls(np.zeros(0), **more)
        return cls(np.asarray(model.theta), cut=model.cut, **more)

    def check(self, problem: Problem) -> None:
        """Theta has the model's size, or no numbers."""
        if self.theta.size:
            fitting(self, theta=(problem.model.size,))
        if self.part not in ("all", "rest", "aside"):
            raise Unfit(f"the part {self.part!r} of the training rows is unknown")
        if not 0 <= self.cut <= 1 or (self.cut != HALF and problem.classes != 2):
            raise Unfit(f"no model decides at {self.cut}")
        fitting(self, cuts=(problem.groups if self.cuts.size else 0,))
        if not ((self.cuts >= 0) & (self.cuts <= 1)).all() or (
            self.cuts.size and problem.classes != 2
        ):
            raise Unfit("no model decides at such cuts")
        if self.scores not in ("", "test", "both"):
            raise Unfit(f"the rows {self.scores!r} are unknown")
        if self.part != "all" and not problem.rest:
            raise Unfit("the problem sets no rows aside")

    def length(self, problem: Problem) -> int:
        """One or two pieces of evidence."""
        pairs, claims = len(problem.constraints), bool(problem.claims)
        shape = (problem.groups, problem.classes, pairs, claims)
        tallies = sum(Evidence.length(*shape, one, problem.weighted) for one in self._scored)
        return tallies + math.prod(self._wagers(problem))

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the training rows, then of the test rows."""
        aside = self.part == "aside"
        train = silo.aside(problem) if aside else silo.rows(problem, self.part == "rest")
        parts = [silo.test] if self.test_only else [train, silo.test]
        claims = bool(problem.claims)
        each = zip(parts, self._scored, strict=True)
        vectors = [self._of(problem, silo, p, one).to_vector(claims, one) for p, one in each]
        if self._wagers(problem)[0]:
            test, small = silo.test, silo.min_cell if self.audit else 0
            losses = self._model(problem, silo).losses(test.x, test.y, test.s)
            vectors.append(wagers_on(losses, test.y, test.s, problem.cell_pairs, small).ravel())
        return np.concatenate(vectors)

    def _wagers(self, problem: Problem) -> tuple[int, ...]:
        """The shape of the sums by which the test rows' losses are bounded."""
        bounded = self.part == "all" and not problem.weighted
        return shape_of(problem.cell_pairs if bounded else ())

    @property
    def _scored(self) -> list[bool]:
        """Of the training rows, if they are asked about, and of the test rows."""
        test = self.scores != ""
        return [test] if self.test_only else [self.scores == "both", test]

    def _of(self, problem: Problem, silo: Silo, part: Part, scored: bool) -> Evidence:
        model = self._model(problem, silo)
        said = Answered.of(model, part.x, part.y, part.s)
        plain = isinstance(model, Plain)
        labels = (said if plain else model).labels(part.x, part.s, problem.seed)
        shape = {"groups": problem.groups, "classes": problem.classes}
        weight = part.times(problem)
        tally = Tally.of(part.y, part.s, labels, said.lost, **shape, weight=weight)
        if scored:
            found = counted(said.chances, part.y, part.s, problem.groups, weight)
            tally = replace(tally, scores=found)
        if problem.claims:
            under = {
                claim: model.losses(part.x, np.full_like(part.y, claim), part.s)
                for claim in problem.claims
            }
            tally = replace(tally, claimed=claimed(under, part.s, *problem.shape, weight))
        return Evidence.of_silo(tally, problem.constraints, silo.min_cell if self.audit else 0)

    def _model(self, problem: Problem, silo: Silo) -> Predictor:
        """The model that is asked about."""
        if self.theta.size:
            plain = Plain(problem.model, self.theta, self.cut)
            return Thresholds(plain, self.cuts) if self.cuts.size else plain
        if silo.own is None:
            raise Unfit("this silo has no model of its own in this training")
        return silo.own

    def read(self, problem: Problem, vector: Floats) -> Seen:
        """The evidence of all silos."""
        wagers = self._wagers(problem)
        tallies = vector[: len(vector) - math.prod(wagers)]
        shape = (*problem.shape, len(problem.constraints), bool(problem.claims))
        weighted = problem.weighted
        cut = Evidence.length(*shape, self._scored[0], weighted)
        parts = [tallies] if self.test_only else np.split(tallies, [cut])
        each = zip(parts, self._scored, strict=True)
        *train, test = (Evidence.from_vector(part, *shape, one, weighted) for part, one in each)
        if wagers[0]:
            test = replace(test, wagers=vector[len(tallies) :].reshape(wagers))
        return (train[0] if train else None), test

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Counts, losses and their squares fit each other, and the rows counted before."""
        train, test = self.read(problem, vector)
        likeliest = bool(self.theta.size) and self.cut == HALF and not self.cuts.size
        for seen in (train, test):
            wrong = seen and wrong_evidence(seen, problem.classes, likeliest)
            if wrong:
                return wrong
        if train is None or self.audit or self.part != "all":
            return ""
        if known.cells is not None and (train.tally.cells < known.cells * (1 - ROUNDING)).any():
            return "a cell has fewer training rows than were counted before"
        return other_rows(float(train.tally.counts.sum()), known, problem.weighted)


def wrong_evidence(seen: Evidence, classes: int, plain: bool) -> str:
    """What contradicts itself; `plain`: labels are the most probable ones."""
    rates = seen.rates
    if (np.abs(rates.total) > rates.silos + ROUNDING).any() or (rates.silos < -ROUNDING).any():
        return "gaps of rates are larger than one"
    return wrong_tally(seen.tally, classes, plain)


def claimed(
    under: dict[int, Floats], s: Ints, groups: int, classes: int, weight: Floats | None = None
) -> Floats:
    """Sums by group of the losses under each claim and of their squares, (2, groups, classes)."""
    found, times = np.zeros((2, groups, classes)), 1.0 if weight is None else weight
    for claim, losses in under.items():
        for power, values in enumerate((times * losses, times * losses**2)):
            found[power, :, claim] = np.bincount(s, weights=values, minlength=groups)
    return found
