"""Pairs of features for an additive model: the strongest ones, or those that the user names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data import Encoder
from fairsilo.data.binned import CELLS, MOST_PARAMETERS, Binned, Block
from fairsilo.data.steps import Pair, coarse
from fairsilo.engine import Engine
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import class_factors
from fairsilo.question import Crossings, Problem
from fairsilo.question.crossings import SIDE
from fairsilo.run.penalty import rows_alike
from fairsilo.run.problem import Posed

STEADY = 5.0
"""Curvature added to every cell when pairs are compared: cells of few rows count little."""
MOST_FEATURES = 60
"""Pairs of so many features are looked at, those with the most columns."""


def check_named(wanted: int | tuple[tuple[str, str], ...], known: Sequence[str]) -> None:
    """Refuse pairs of columns that are no features, or of one with itself."""
    for first, second in () if isinstance(wanted, int) else wanted:
        for name in (first, second):
            if name not in known:
                raise FairSiloError(
                    f"`pairs` names {name!r}, which is no feature: choose from {', '.join(known)}"
                )
        if first == second:
            raise FairSiloError(f"`pairs` crosses {first!r} with itself: name two features")


def named(names: tuple[tuple[str, str], ...], posed: Posed) -> Encoder:
    """The encoder with the pairs that the user names."""
    known = [block.name for block in _features(posed)]
    check_named(names, known)
    return _with(posed, [(known.index(a), known.index(b)) for a, b in names])


def strongest(most: int, posed: Posed, problem: Problem, theta: Floats, engine: Engine) -> Encoder:
    """The encoder with the pairs that gain most at theta, the optimum of the curves; one exchange.

    The gain is that of one Newton step in all cells of a pair, less what chance alone would give,
    with weights that are one on average.
    """
    blocks = _features(posed)
    asked = sorted(range(len(blocks)), key=lambda k: -blocks[k].width)[:MOST_FEATURES]
    steps = [
        _coarse(block, rows, SIDE) if k in asked and block.width > 1 else (-1,) * block.width
        for k, (block, rows) in enumerate(zip(blocks, posed.rows, strict=True))
    ]
    widths = np.array([block.width for block in blocks], np.float64)
    costs, totals = np.zeros(0), engine.count(problem)
    if problem.class_weight is not None:
        costs = class_factors(problem.class_weight, totals.by_class)
    share = rows_alike(problem, engine) / totals.in_objective(problem.class_weight)
    coarse = np.concatenate(steps).astype(np.float64)
    question = Crossings(np.asarray(theta), widths, coarse, costs, problem.rest)
    found: dict[tuple[int, int], Floats] = engine.ask(problem, question)
    gains = {pair: gain_of(*(share * sums)) for pair, sums in found.items()}
    best = sorted((pair for pair in gains if gains[pair] > 0), key=lambda pair: -gains[pair])
    return _with(posed, best[:most], problem.model.outputs)


def gain_of(gradient: Floats, curvature: Floats) -> float:
    """What a pair gains, less its expectation if the pair did not matter."""
    bent = curvature + STEADY
    return float((gradient**2 / bent - curvature / bent).sum() / 2)


def _features(posed: Posed) -> tuple[Block, ...]:
    binned = posed.encoder.binned
    assert binned is not None
    return Binned(binned.steps, binned.rare).blocks(posed.encoder.schema)


def _coarse(block: Block, rows: Floats, most: int) -> tuple[int, ...]:
    """The coarse steps of a feature's columns; missing cells of a number have their own."""
    if block.steps is None or not block.steps.missing:
        return coarse(rows.tolist(), block.steps is not None, most)
    found = coarse(rows[:-1].tolist(), True, most - 1)
    return (*found, max(found) + 1)


def _with(posed: Posed, places: list[tuple[int, int]], outputs: int = 1) -> Encoder:
    """The encoder with pairs of these features, as many as a model has room for."""
    blocks, encoder = _features(posed), posed.encoder
    room = MOST_PARAMETERS // outputs - 1 - sum(block.width for block in blocks)
    pairs: list[Pair] = []
    for a, b in places:
        first, second = blocks[a], blocks[b]
        side = min(first.width, SIDE)
        other = min(second.width, CELLS // side)
        side = min(first.width, CELLS // other)
        pair = Pair(
            a, b, _coarse(first, posed.rows[a], side), _coarse(second, posed.rows[b], other)
        )
        if pair.width <= room:
            room -= pair.width
            pairs.append(pair)
    assert encoder.binned is not None
    return replace(encoder, binned=replace(encoder.binned, pairs=tuple(pairs)))
