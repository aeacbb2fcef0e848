"""How far one lying silo of N moves a model on ADULT, as long as nobody notices.

    python -m benchmarks.poisoning --out benchmarks/results/poisoning.json      # 2 seeds
    python -m benchmarks.poisoning --silos 4 --seeds 1

One silo of N, rows dealt out evenly, FedFair with epsilon 0.05 by Newton. What it does:

    honest     nothing
    flips      the labels of all its rows
    targets    its women above 50K are below, its men below 50K are above
    claims     the same, every row counted twenty times: nobody knows how many it has
    pushes     its sums get a constant push towards a high income
    shifts     it tells the gap between the groups too large or too small by a constant

The last two are lies that no table of its own gives, of several strengths: those that the bounds of
`question/round_bounds.py` notice say so.

Accuracy and DEO are of the true test rows. Every sum is judged as a network run behind masks does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.coded import of_each, pulled
from fairsilo.engine import Clientwise, silos_of
from fairsilo.evaluate.metrics import accuracy, deo
from fairsilo.method import METHODS
from fairsilo.question import Problem, Question, Round
from fairsilo.question.base import Part, Silo
from fairsilo.question.plausible import Known
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import plan
from fairsilo.run.tallies import tally_of

SILOS = (4, 10, 50)
EPSILON = 0.05
TIMES = 20
"""How often a silo counts its rows that claims to have many."""
PUSHES = (-0.3, -0.1)
"""Strengths of a push; the one that does most harm unnoticed counts."""
SHIFTS = (-1.0, 1.0)
"""By how much a gap of losses is told too large."""
FEMALE, MALE, HIGH = 0, 1, 1

Lie = Callable[[Problem, Round, Floats], Floats]


class Noticed(Exception):
    """The sums cannot be right."""


class Liar(Clientwise):
    """The first silo changes its answers to rounds; every sum is judged."""

    lie: Lie | None = None
    rows: int | None = None
    encoded: int | None = None

    def ask(self, problem: Problem, question: Question) -> Any:
        parts = [question.answer(problem, silo) for silo in self.silos]
        if self.lie is not None and isinstance(question, Round):
            parts[0] = self.lie(problem, question, parts[0])
        total: Floats = reduce(add, parts)
        known = Known(rows=self.rows, encoded=self.encoded, silos=len(parts))
        why = question.implausible(problem, total, known)
        if why:
            raise Noticed(why)
        return question.read(problem, total)


def as_fitted(silos: list[Silo]) -> int:
    """The rows of the encoder, times the largest mean square of a column.

    A silo that claims more rows does so from the first question on, and the encoder would be
    fitted to them; here it is the honest one.
    """
    squares = [
        pulled(of_each(one.train.x, np.square), np.ones((len(one.train), 1))) for one in silos
    ]
    rows = sum(len(one.train) for one in silos)
    return int(np.ceil(max(float(reduce(add, squares).max()), rows)))


def relabelled(part: Part, targeted: bool, times: int = 1) -> Part:
    """The rows with other labels."""
    y = 1 - part.y
    if targeted:
        moved = ((part.s == FEMALE) & (part.y == HIGH)) | ((part.s == MALE) & (part.y != HIGH))
        y = np.where(moved, 1 - part.y, part.y)
    every = np.tile(np.arange(len(part)), times)
    return replace(part, y=y).only(every)


def pushing(row: Floats, strength: float) -> Lie:
    """A constant push along a row: its loss, strength * (its score), bends nothing."""

    def lie(problem: Problem, question: Round, vector: Floats) -> Floats:
        found, first = vector.copy(), 1 + len(question.mu)
        found[0] += strength * float(row @ question.theta)
        found[first : first + len(row)] += strength * row
        return found

    return lie


def shifting(strength: float) -> Lie:
    """The gap is told too large, so that the true one ends that much below.

    By strength * t with t = |theta|^2 / (1 + |theta|^2): at theta = 0 everybody knows that there
    is no gap.
    """

    def lie(problem: Problem, question: Round, vector: Floats) -> Floats:
        found, pairs, theta = vector.copy(), len(question.mu), question.theta
        square = float(theta @ theta)
        found[1 : 1 + pairs] += strength * square / (1 + square)
        first = 1 + pairs + len(theta)
        slope = strength * 2 * theta / (1 + square) ** 2
        found[first : first + pairs * len(theta)] += np.tile(slope, pairs)
        return found

    return lie


def ways(
    prepared: Prepared,
) -> Iterator[tuple[str, float | None, list[Silo], Lie | None]]:
    """What the first silo does: a name, its strength, the silos' rows, the lie."""
    honest = silos_of(prepared.federation)

    def with_rows(part: Part) -> list[Silo]:
        return [replace(honest[0], train=part, cache={}), *silos_of(prepared.federation)[1:]]

    own = honest[0].train
    yield "honest", None, honest, None
    yield "flips", None, with_rows(relabelled(own, targeted=False)), None
    yield "targets", None, with_rows(relabelled(own, targeted=True)), None
    yield "claims", TIMES, with_rows(relabelled(own, targeted=True, times=TIMES)), None
    # The mean of its own rows: columns of a category add up to one, as in every sum over rows.
    ones = np.full((len(own), 1), 1 / len(own))
    mean = np.concatenate([[1.0], pulled(own.x, ones)[:, 0]])
    for strength in PUSHES:
        yield "pushes", strength, silos_of(prepared.federation), pushing(mean, strength)
    for strength in SHIFTS:
        yield "shifts", strength, silos_of(prepared.federation), shifting(strength)


def measured(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """All ways with one deal of the rows."""
    options = Options(data="adult", clients=count, epsilon=EPSILON, seed=seed)
    prepared = prepare(options)
    problem = plan(options, prepared)
    for way, strength, silos, lie in ways(prepared):
        engine = Liar(silos)
        engine.lie, engine.rows = lie, sum(len(silo.train) for silo in silos)
        engine.encoded = as_fitted(silos)
        line: dict[str, Any] = {"silos": count, "seed": seed, "way": way, "strength": strength}
        try:
            (model,) = METHODS[options.method](problem, engine).predictors
        except Noticed as noticed:
            yield {**line, "noticed": str(noticed)}
            continue
        test = prepared.test_x, prepared.test_y, prepared.test_s
        tally = tally_of(model, *test, prepared, seed)
        found = deo(tally, prepared.compared)
        yield {**line, "accuracy": accuracy(tally), "deo": found}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--silos", type=int, nargs="+", default=SILOS)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    lines = []
    for count in given.silos:
        for seed in range(given.seeds):
            for line in measured(count, seed):
                lines.append(line)
                print(json.dumps(line), flush=True)
    if given.out:
        given.out.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
