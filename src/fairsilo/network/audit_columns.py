"""Any model, audited over silos through its answers, which lie in columns of the silos' tables.

Which columns is said in the silo's own settings, not in the question: a server that could name
them could have any column of the table tallied.

    classes         predicted classes alone: rates
    probabilities   probabilities, too: rates and losses
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.auditor.answers import of_columns
from fairsilo.auditor.rows import Rows
from fairsilo.data.encoder import Encoder, Scaling
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.betting import shape_of, wagers_on
from fairsilo.evaluate.evidence import Evidence, Gaps
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness import NOTIONS
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.settings import Settings
from fairsilo.question.base import Part, Problem, Question, Silo, Unfit
from fairsilo.question.evaluate import wrong_evidence
from fairsilo.question.plausible import NOTHING, Known
from fairsilo.run.constraints import every_pair
from fairsilo.run.problem import plan

CLASSES, PROBABILITIES = "classes", "probabilities"
COLUMNS = (CLASSES, PROBABILITIES)


@dataclass(frozen=True, eq=False)
class Answers(Question, kind="answers"):
    """Evidence of the model whose answers are in the silo's own columns, less its small cells."""

    what: str
    test_only: bool = False

    def check(self, problem: Problem) -> None:
        """It is known what is asked for."""
        if self.what not in COLUMNS:
            raise Unfit(f"an audit of {self.what!r} is unknown")

    def named_by(self, settings: Settings) -> bool:
        """Whether the silo's settings name what is asked for."""
        classes = settings.audit_predictions is not None
        return bool(settings.audit_probability) or (self.what == CLASSES and classes)

    def length(self, problem: Problem) -> int:
        """One or two pieces of evidence."""
        one = Evidence.length(*problem.shape, len(problem.cell_pairs))
        return (one if self.test_only else 2 * one) + math.prod(self._wagers(problem))

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the training rows, then of the test rows."""
        parts = [silo.test] if self.test_only else [silo.train, silo.test]
        vectors = []
        for part in parts:
            predicted, losses = self.of(problem, silo, part)
            shape: dict[str, Any] = {"groups": problem.groups, "classes": problem.classes}
            tally = Tally.of(part.y, part.s, predicted, losses, **shape)
            seen = Evidence.of_silo(tally, problem.cell_pairs, silo.min_cell)
            vectors.append(seen.to_vector())
        if self._wagers(problem)[0]:
            test, pairs = silo.test, problem.cell_pairs
            vectors.append(wagers_on(losses, test.y, test.s, pairs, silo.min_cell).ravel())
        return np.concatenate(vectors)

    def _wagers(self, problem: Problem) -> tuple[int, ...]:
        """The shape of the sums by which losses are bounded; predicted classes have no losses."""
        return shape_of(problem.cell_pairs if self.what == PROBABILITIES else ())

    def of(self, problem: Problem, silo: Silo, part: Part) -> tuple[Ints, Floats]:
        """Predicted classes and losses of some rows."""
        assert problem.schema is not None
        nobody = np.zeros(len(part), np.int64)
        predictions, probability, protected = silo.answers
        rows = Rows(
            part.frame, problem.schema, part.y, part.s, nobody, ("",), problem.cell_pairs,
            problem.schema.groups, protected, "", None,
        )  # fmt: skip
        answers = of_columns(predictions, probability, rows)
        losses = answers.losses if self.what == PROBABILITIES else np.zeros(len(part))
        return answers.predicted, losses

    def read(self, problem: Problem, vector: Floats) -> tuple[Evidence | None, Evidence]:
        """The evidence of all silos, without losses where only classes were asked for."""
        wagers = self._wagers(problem)
        tallies = vector[: len(vector) - math.prod(wagers)]
        parts = [tallies] if self.test_only else np.split(tallies, 2)
        shape = (*problem.shape, len(problem.cell_pairs))
        seen = [Evidence.from_vector(part, *shape) for part in parts]
        if self.what == CLASSES:
            seen = [without_losses(one) for one in seen]
        *train, test = seen
        if wagers[0]:
            test = replace(test, wagers=vector[len(tallies) :].reshape(wagers))
        return (train[0] if train else None), test

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Counts, losses and their squares fit each other."""
        tallies = vector[: len(vector) - math.prod(self._wagers(problem))]
        parts = [tallies] if self.test_only else np.split(tallies, 2)
        shape = (*problem.shape, len(problem.cell_pairs))
        each = (Evidence.from_vector(part, *shape) for part in parts)
        wrong = (wrong_evidence(one, problem.classes, plain=False) for one in each)
        return next(filter(None, wrong), "")


def without_losses(evidence: Evidence) -> Evidence:
    """Evidence of predicted classes alone: NaN for the losses that nobody knows."""
    tally, gaps = evidence.tally, evidence.losses
    unknown = np.where(tally.cells > 0, np.nan, 0.0)
    return Evidence(
        Tally(tally.counts, unknown, unknown),
        Gaps(gaps.silos, np.where(gaps.silos > 0, np.nan, 0.0), gaps.sure, gaps.variance),
        evidence.rates,
        evidence.hidden,
    )


def columns_of(
    settings: Settings, agreed: FederationFile
) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """`Silo.answers`: the columns that the settings name, and the protected classes."""
    protected = tuple(agreed.table.classes[c] for c in agreed.protected)
    return settings.audit_predictions, settings.audit_probability, protected


def unfitted(agreed: FederationFile) -> Encoder:
    """An encoder for audits that encode nothing: any will do."""
    return Encoder(agreed.table, (Scaling(0.0, 1.0, False),) * len(agreed.table.numbers))


def audited_classes(agreed: FederationFile) -> tuple[str, ...]:
    """The classes in which groups are compared: as in simulation, all where the notion says so."""
    classes = agreed.table.classes
    every = NOTIONS[agreed.notion].every_class
    return classes if every else tuple(classes[c] for c in agreed.protected)


def audited(agreed: FederationFile, problem: Problem) -> Problem:
    """The problem of an audit: it compares every pair of groups, whatever training constrains.

    An audit counts rows, whatever they weigh in training.
    """
    groups = agreed.groups or agreed.table.groups
    pairs = every_pair(agreed.table, groups, audited_classes(agreed))
    unweighted = {"weighted": False, "class_weight": None}
    return replace(problem, constraints=pairs, epsilon=0.0, **unweighted)  # type: ignore[arg-type]


def check_columns(settings: Settings, agreed: FederationFile, part: Part) -> str:
    """What is wrong with the columns that the settings name; nothing if nothing is."""
    question = Answers(PROBABILITIES if settings.audit_probability else CLASSES)
    silo = Silo(part, part, answers=columns_of(settings, agreed))
    try:
        if question.named_by(settings):
            problem = plan(agreed.options(), agreed.posed(unfitted(agreed)))
            question.of(audited(agreed, problem), silo, part)
    except FairSiloError as error:
        return str(error)
    return ""
