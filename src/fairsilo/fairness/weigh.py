"""Weigh rows: every silo weighs its own, knowing only `Totals` of the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness.constraint import (
    ClassWeight,
    Constraint,
    Estimator,
    Totals,
    class_factors,
    count_cells,
    row_weights,
)
from fairsilo.partition.federation import Federation


@dataclass(frozen=True, eq=False)
class Weighted:
    """The rows that a round asks about, and their weights."""

    source: Ints | None
    """Which of the silo's rows each one is; None: all of them, in their order."""
    y: Ints
    w: Floats
    """Weights in the objective, (n,)."""
    v: Floats
    """Weights in the constraints, (constraints, n)."""


def totals_of(
    federation: Federation, constraints: Sequence[Constraint], min_cell: int = 0
) -> Totals:
    """The sum of the silos' counts: a set-up exchange."""
    parts = (
        silo_totals(part.y, part.s, part.weight, (part.groups, part.classes), constraints, min_cell)
        for part in federation.parts()
    )
    return reduce(add, parts)


def silo_totals(
    y: Ints,
    s: Ints,
    weight: Floats | None,
    shape: tuple[int, int],
    constraints: Sequence[Constraint],
    min_cell: int = 0,
    by_class: bool = True,
) -> Totals:
    """One silo's summand of the totals, from its rows."""
    rows = count_cells(y, s, *shape)
    cells = rows if weight is None else count_cells(y, s, *shape, weight)
    return Totals.of_silo(cells, constraints, min_cell, rows, by_class)


def weigh_silo(
    y: Ints,
    s: Ints,
    constraints: Sequence[Constraint],
    estimator: Estimator,
    totals: Totals,
    min_cell: int = 0,
    weight: Floats | None = None,
    class_weight: ClassWeight | None = None,
) -> Weighted:
    """One silo's rows and weights.

    A row of weight u counts as u rows. Weights of classes count in the objective only: they say
    what an error costs, and a constraint compares people.

    A constraint with a claim needs the loss of every row under that class. So the silo's rows of
    other classes are asked a second time, under the claimed class; these weigh nothing in the
    objective, and in the constraints of their claim what the row weighs.
    """
    w = np.full(len(y), 1 / totals.rows)
    if weight is not None:
        w = weight / totals.rows
    if class_weight is not None:
        share = totals.rows / totals.in_objective(class_weight)
        w = w * share * class_factors(class_weight, totals.by_class)[y]
    v = row_weights(constraints, estimator, y, s, totals, min_cell, weight)
    claims = [constraint.claim for constraint in constraints]
    named = sorted({claim for claim in claims if claim is not None})
    if not named:
        return Weighted(None, y, w, v)
    rows = np.arange(len(y))
    source = np.concatenate([rows, *(rows[y != claim] for claim in named)])
    repeated = [np.full(int(np.sum(y != claim)), claim) for claim in named]
    asked = np.concatenate([y, *repeated])
    again = np.arange(len(source)) >= len(y)
    counts = [~again if claim is None else asked == claim for claim in claims]
    return Weighted(source, asked, np.where(again, 0.0, w[source]), v[:, source] * counts)


def weighted(
    federation: Federation,
    constraints: Sequence[Constraint],
    estimator: Estimator,
    min_cell: int = 0,
    class_weight: ClassWeight | None = None,
) -> tuple[Federation, Floats, Floats]:
    """All silos' rows that a round asks about, w (n,) and v (constraints, n).

    Under `local` a row weighs in the constraints of its own silo: the engine keeps the silos'
    sums apart instead of adding them.
    """
    totals = totals_of(federation, constraints, min_cell)
    each = [
        weigh_silo(
            part.y, part.s, constraints, estimator, totals, min_cell, part.weight, class_weight
        )
        for part in federation.parts()
    ]
    w = np.concatenate([one.w for one in each])
    v = np.concatenate([one.v for one in each], axis=1)
    if each[0].source is None:
        return federation, w, v
    starts = federation.offsets[:-1]
    source = np.concatenate(
        [
            one.source + start
            for one, start in zip(each, starts, strict=True)
            if one.source is not None
        ]
    )
    asked = Federation(
        federation.x[source],
        np.concatenate([one.y for one in each]),
        federation.s[source],
        np.cumsum([0, *(len(one.y) for one in each)]),
        federation.groups,
        federation.classes,
    )
    return asked, w, v
