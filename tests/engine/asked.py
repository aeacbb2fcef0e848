"""Every question, with rows and a problem to ask it about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import Category, EncoderSums, Number, Schema
from fairsilo.dp import Clip, Plan
from fairsilo.evaluate.evidence import Evidence
from fairsilo.fairness import NOTIONS, comparisons
from fairsilo.method.repair import Repair
from fairsilo.method.st import Separate
from fairsilo.question import (
    Cells,
    Columns,
    Counts,
    Evaluate,
    Local,
    NoisyColumns,
    NoisyCounts,
    Outcomes,
    Part,
    Problem,
    Question,
    Round,
    Silo,
)
from fairsilo.question.agnostic import POINTS, Attack, AttackSums, ColumnSums, Spread
from fairsilo.question.base import Promise
from fairsilo.question.model_sums import flatten
from fairsilo.solver import Order
from tests.method.tasks import biased, problem_of

SIZES, FEATURES = [31, 24, 45], 3
FEDERATION = biased(0, SIZES)
RNG = np.random.default_rng(1)
THETA = RNG.normal(size=FEATURES + 1)
SCHEMA = Schema(
    features=(
        Number(name="a", bounds=(-4, 4)),
        Category(name="c", values=("x", "y")),
        Number(name="b", bounds=(-4, 4)),
    ),
    label="label",
    classes=("no", "yes"),
    group="group",
    groups=("f", "m"),
)
FRAME = pd.DataFrame(
    {
        "a": np.where(RNG.random(sum(SIZES)) < 0.1, np.nan, RNG.normal(size=sum(SIZES))),
        "b": RNG.normal(size=sum(SIZES)),
        "c": "x",
    }
)
PARITY = NOTIONS["demographic-parity"].constraints(comparisons([0, 1], "pairs"), [1], 2)
PROBLEM = problem_of(
    FEDERATION,
    estimator="pooled",
    hidden=(1,),
    rest=True,
    schema=SCHEMA,
    promise=Promise(Plan(*[1.0] * 6), Clip(0.5, 2.0)),
)
CLAIMED = replace(PROBLEM, constraints=(*PROBLEM.constraints, *PARITY))


def part(rows: slice) -> Part:
    kept = FEDERATION.y[rows], FEDERATION.s[rows], FEDERATION.x[rows]
    return Part(*kept, FRAME.iloc[rows])


def silos() -> list[Silo]:
    """Silos that were never asked anything; the first half of a silo's rows are its test rows."""
    found = []
    for i, own in enumerate(FEDERATION.silos()):
        half = slice(own.start, own.start + (own.stop - own.start) // 2)
        found.append(Silo(part(own), part(half), 0, i))
    return found


def whole() -> Silo:
    return Silo(part(slice(None)), part(slice(None)))


def totals(problem: Problem, rest: bool = False) -> Floats:
    asked = Counts(rest)
    found: Floats = reduce(add, (asked.answer(problem, silo) for silo in silos()))
    return found


def weighting() -> Floats:
    return np.concatenate([[0.7], np.random.default_rng(2).random(POINTS), [0.4]])


POINTS_AT = np.random.default_rng(3).normal(size=POINTS * (FEATURES - 1))
"""Reference points in the two columns that do not name the group."""
MU = {1: np.array([0.3]), 2: np.array([0.3, -0.2]), 0: np.zeros(0)}


def asked_round(problem: Problem, order: str, **more: Any) -> Round:
    limited = more.get("limited", True)
    pairs = len(problem.constraints) if limited else 0
    counted = problem if limited else replace(problem, constraints=())
    return Round(THETA, MU[pairs], order, totals(counted, more.get("rest", False)), **more)


def local(problem: Problem) -> Local:
    return Local(THETA, 10.0, 0, totals(problem))


def no_pack(read: Any) -> Floats:
    raise NotImplementedError


@dataclass(frozen=True)
class Case:
    """A question, the problem it is about, and how to write what it reads as a vector again."""

    question: Callable[[], Question]
    pack: Callable[[Any], Floats]
    problem: Problem = PROBLEM


def pack_evidence(claims: bool, scores: bool = False) -> Callable[[Any], Floats]:
    def pack(seen: tuple[Evidence | None, Evidence]) -> Floats:
        vectors = [one.to_vector(claims, scores) for one in seen if one is not None]
        return np.concatenate([*vectors, seen[1].wagers.ravel()])

    return pack


def pack_cells(read: Sequence[Floats]) -> Floats:
    gradients, losses, *more = read
    triangles = []
    for matrix in more:
        np.testing.assert_array_equal(matrix, matrix.T)
        upper = np.triu_indices(len(matrix))
        triangles.append(matrix[upper] * np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0)))
    return np.concatenate([gradients.ravel(), losses, *triangles])


def pack_local(read: Any) -> Floats:
    sums, loss, violation = read
    assert sums.d.shape == (0,)
    assert sums.jac.shape == (0, FEATURES + 1)
    return np.concatenate([flatten(sums), [loss, violation]])


def pack_attack(sums: AttackSums) -> Floats:
    kernels = [sums.kernel, sums.loss_kernel, sums.group_kernel, sums.group_score_kernel]
    grads = [sums.loss_grads.ravel(), sums.group_score_grads.ravel(), sums.score_grad]
    return np.concatenate([*kernels, [sums.loss, sums.score], *grads])


def pack_columns(sums: EncoderSums) -> Floats:
    assert sums.names == ("a", "b")
    return np.concatenate([[sums.rows], sums.count, sums.total, sums.squares])


def pack_spread(sums: ColumnSums) -> Floats:
    return np.concatenate([[sums.rows], sums.total, sums.squares, sums.off_binary])


CASES: dict[str, Case] = {
    "counts": Case(Counts, lambda read: read.to_vector()),
    "counts, rest": Case(lambda: Counts(True), lambda read: read.to_vector()),
    **{
        f"round, {order.value}": Case(lambda o=order.value: asked_round(PROBLEM, o), flatten)  # type: ignore[misc]
        for order in Order
    },
    "round, rest": Case(lambda: asked_round(PROBLEM, "second", rest=True), flatten),
    "round, free": Case(lambda: asked_round(PROBLEM, "second", limited=False), flatten),
    "round, claimed": Case(lambda: asked_round(CLAIMED, "second"), flatten, CLAIMED),
    "round, rates": Case(
        lambda: asked_round(PROBLEM, "second"), flatten, replace(PROBLEM, measure="rate")
    ),
    "local": Case(lambda: local(PROBLEM), pack_local),
    "columns": Case(Columns, pack_columns),
    "evaluate": Case(lambda: Evaluate(THETA), pack_evidence(False)),
    "evaluate, test": Case(lambda: Evaluate(THETA, test_only=True), pack_evidence(False)),
    "evaluate, scored": Case(
        lambda: Evaluate(THETA, scores="both"), pack_evidence(False, scores=True)
    ),
    "evaluate, claimed": Case(lambda: Evaluate(THETA), pack_evidence(True), CLAIMED),
    "noisy-counts": Case(NoisyCounts, np.ravel),
    "noisy-columns": Case(NoisyColumns, np.asarray),
    "cells": Case(lambda: Cells(THETA, False), pack_cells),
    "cells, curvature": Case(lambda: Cells(THETA, True), pack_cells),
    "cells, free": Case(lambda: Cells(THETA, True, limited=False), pack_cells),
    "outcomes": Case(
        lambda: Outcomes(THETA),
        lambda read: np.concatenate([read[0].ravel(), 2.0 * read[1].ravel()]),
    ),
    "spread": Case(Spread, pack_spread),
    "attack": Case(lambda: Attack(THETA, POINTS_AT), pack_attack),
    "separate": Case(Separate, no_pack),
    "repair": Case(lambda: Repair("eo", THETA), np.array),
}
