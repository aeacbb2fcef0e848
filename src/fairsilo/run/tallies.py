"""Tallies of a simulation's rows: of every client's training rows, and of the test rows."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.evaluate import Tally
from fairsilo.evaluate.betting import wagers_on
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.scores import counted
from fairsilo.method import Trained
from fairsilo.predictor import Predictor
from fairsilo.predictor.answers import Answered, on_own_rows
from fairsilo.predictor.base import Plain
from fairsilo.question.evaluate import claimed
from fairsilo.run.prepare import Prepared


def tallies_of_clients(
    prepared: Prepared, trained: Sequence[Trained], seed: int
) -> list[list[Tally]]:
    """For each training, of each client's training rows, by the common model or by its own."""
    federation = prepared.federation
    found = []
    answers = on_own_rows([one.predictors for one in trained], federation, seed)
    for one, (labels, losses) in zip(trained, answers, strict=True):
        own = itertools.cycle(one.predictors)
        tallies = Tally.of_clients(
            federation.y,
            federation.s,
            labels,
            losses,
            offsets=federation.offsets,
            groups=federation.groups,
            classes=federation.classes,
            weight=federation.weight,
        )
        found.append(
            [
                with_claims(tally, next(own), part.x, part.y, part.s, prepared, part.weight)
                for tally, part in zip(tallies, federation.parts(), strict=True)
            ]
        )
    return found


def test_evidence(prepared: Prepared, predictor: Predictor, seed: int) -> Evidence:
    """What the test rows say of a predictor: silo by silo where they belong to silos."""
    schema, x, y, s = prepared.schema, prepared.test_x, prepared.test_y, prepared.test_s
    weight = prepared.test_weight
    said = Answered.of(predictor, x, y, s)
    plain = isinstance(predictor, Plain)
    predicted = (said if plain else predictor).labels(x, s, seed)
    owner = np.zeros_like(y) if prepared.test_client is None else prepared.test_client
    shape = {"groups": len(schema.groups), "classes": len(schema.classes)}
    tallies = (
        with_claims(
            replace(
                Tally.of(y[of], s[of], predicted[of], said.lost[of], **shape, weight=u),
                scores=counted(said.chances[of], y[of], s[of], shape["groups"], u),
            ),
            predictor, x[of], y[of], s[of], prepared, u,
        )
        for of in (owner == k for k in range(int(owner.max(initial=0)) + 1))
        for u in (None if weight is None else weight[of],)
    )  # fmt: skip
    pairs = prepared.cell_pairs
    seen = reduce(add, (Evidence.of_silo(one, pairs) for one in tallies))
    bounded = pairs and weight is None
    return replace(seen, wagers=wagers_on(said.lost, y, s, pairs)) if bounded else seen


def tally_of(
    predictor: Predictor,
    x: Table,
    y: Ints,
    s: Ints,
    prepared: Prepared,
    seed: int,
    weight: Floats | None = None,
) -> Tally:
    """Counts and losses of a predictor on some rows."""
    groups, classes = len(prepared.schema.groups), len(prepared.schema.classes)
    labels, losses = predictor.labels(x, s, seed), predictor.losses(x, y, s)
    tally = Tally.of(y, s, labels, losses, groups=groups, classes=classes, weight=weight)
    return with_claims(tally, predictor, x, y, s, prepared, weight)


def with_claims(
    tally: Tally,
    predictor: Predictor,
    x: Table,
    y: Ints,
    s: Ints,
    prepared: Prepared,
    weight: Floats | None,
) -> Tally:
    """The tally, with the losses under the classes that constraints claim."""
    groups, classes = tally.losses.shape
    claims = {one.claim for one in prepared.constraints if one.claim is not None}
    if not claims:
        return tally
    under = {claim: predictor.losses(x, np.full_like(y, claim), s) for claim in claims}
    return replace(tally, claimed=claimed(under, s, groups, classes, weight))
