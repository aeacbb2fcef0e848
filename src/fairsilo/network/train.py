"""A training over silos, from the first question to the run folder: the steps of `fairsilo train`.

Everything here works on sums alone; the code is the simulation's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.data import Encoder
from fairsilo.engine import Changed
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import summary
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import largest
from fairsilo.method import METHODS, Trained
from fairsilo.network.engine import Network
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.private_engine import PrivateNetwork
from fairsilo.question import QUESTIONS, Evaluate, Problem
from fairsilo.run import Run
from fairsilo.run.decide import cut_of, decided
from fairsilo.run.endings import explain
from fairsilo.run.measure import Seen, Training, measure, training_of
from fairsilo.run.options import Options
from fairsilo.run.private import check_counts, released_by, released_training, spent, without
from fairsilo.run.problem import (
    HISTOGRAMS,
    SETUP_EXCHANGES,
    Posed,
    check_rows,
    plan,
    pooled_below,
    pose,
)
from fairsilo.run.settle import Settled, settle
from fairsilo.run.train import terms_here, train, unlimited

SET_UP = (
    *("columns", "histogram", "crossings", "counts", "spread"),
    *("noisy-columns", "noisy-histogram", "noisy-counts"),
)
"""The kinds of questions that come before the rounds, or again after a loss."""


def train_over(
    agreed: FederationFile, engine: Network, baseline: bool = False, start: Path | None = None
) -> Run:
    """Fit the encoder, count, train, evaluate; `baseline`: again without the constraints.

    `start`: the run folder from whose model training starts.
    """
    if baseline and agreed.dp is not None:
        raise FairSiloError("`baseline` would spend the privacy budget a second time: leave it out")
    options = replace(agreed.options(), start_from=start)
    pooled = bool(agreed.protected and pooled_below(options, agreed.table))
    histograms = HISTOGRAMS if options.binned and agreed.dp is None else 0
    engine.expected = SETUP_EXCHANGES + pooled + histograms
    engine.gather.declare({"baseline": baseline, "start": engine.journal.start}, engine.journal)
    posed = pose(
        options, agreed.table, engine,
        protected=agreed.protected, groups=agreed.groups, hidden=agreed.hidden,
    )  # fmt: skip
    engine.learn(posed)
    engine.note_absent()

    def learn(encoder: Encoder) -> tuple[Posed, Network]:
        crossed = replace(posed, encoder=encoder)
        engine.learn(crossed)
        return crossed, engine

    settled = settle(options, posed, _ready(options, posed, engine), engine, learn)
    posed, problem = settled.posed or posed, settled.problem
    engine.say(
        {
            "event": "posed",
            "about": {
                "constraints": [posed.describe(one) for one in problem.constraints],
                "limits": [float(one) for one in np.ravel(problem.limits)],
                # Without noise training ends when it has converged, and nobody knows when.
                "rounds": None if agreed.dp is None else problem.rounds,
            },
        }
    )
    trained = _trained(options, settled, engine)
    whole = replace(problem, constraints=posed.constraints)
    trained = decided(options.decide_at, whole, trained, engine)
    seen, found = _seen(options, posed, problem, trained, engine)
    rounds = [entry for entry in engine.entries if entry.vector is not None and _is_round(entry)]
    free = None
    if baseline and agreed.spec.limited:
        problem_here = plan(options, posed)
        free = unlimited(options, posed, settled, engine)
        free = decided(options.decide_at, problem_here, free, engine)
        test = _evaluate(problem_here, engine, free)[1]
        told = summary(test.tally, posed.constraints, posed.compared)
        found["unconstrained"] = {"test": told}
    sent = {"bytes_up": engine.traffic.up, "bytes_down": engine.traffic.down}
    before = [entry for entry in engine.entries if entry.kind in SET_UP]
    seen.sent.update(sent, setup_exchanges=len(before))
    trained = replace(trained, notes=(*trained.notes, *engine.notes))
    seconds = sum(entry.seconds for entry in engine.entries)
    metrics = measure(options, posed, problem, trained, seen, seconds)
    metrics |= found
    metrics["network"] = {
        "fingerprint": agreed.fingerprint,
        "secure_aggregation": engine.gather.secure,
        "silos": list(engine.silos),
        "witnesses": [one.name for one in agreed.witnesses],
        "signatures": agreed.signers,
        # Behind masks a question takes several messages.
        "exchanges": engine.traffic.exchanges,
        "setup_messages": sum(entry.traffic.exchanges for entry in before),
        "rounds": [
            {"round": k + 1, "silos": len(entry.silos), "seconds": entry.seconds}
            for k, entry in enumerate(rounds)
        ],
    }
    terms = terms_here(options, posed, settled, trained, free, engine)
    return Run(options, posed, engine.silos, trained, metrics, terms)


def _trained(options: Options, settled: Settled, engine: Network) -> Trained:
    """By the options' method; anew where a silo was lost at a point that it may not go on from."""
    while True:
        try:
            return train(options, settled, engine, engine.watch)
        except Changed as change:
            settled = replace(settled, problem=change.anew(settled.problem))


def _ready(options: Options, posed: Posed, engine: Network) -> Problem:
    """The problem, once the counts say that it can be trained."""
    problem = plan(options, posed)
    if isinstance(engine, PrivateNetwork):
        assert problem.promise is not None
        if METHODS[options.method].limited:
            noise = engine.deviation(1.0, problem.promise.plan.counts)
            check_counts(posed, engine.counts(problem), noise)
        return problem
    totals = engine.count(problem)
    check_rows(options, posed, totals)
    return problem


def _seen(
    options: Options,
    posed: Posed,
    problem: Problem,
    trained: Trained,
    engine: Network,
) -> tuple[Seen, dict[str, Any]]:
    """What is known of the trained model: evidence, or under differential privacy releases."""
    whole = replace(problem, constraints=posed.constraints)
    if isinstance(engine, PrivateNetwork):
        outcomes = engine.outcomes(whole, trained.outcome.theta, cut_of(trained))
        released = released_by(engine, problem, outcomes)
        _, test = _evaluate(whole, engine, trained)
        tolerance = engine.under_noise(without(options, problem)).solver.tolerance
        training = released_training(released, posed, trained.outcome, tolerance, test.tally)
        noise = "shared" if engine.agreed.secure_aggregation else "full"
        found = {"dp": spent(engine.ledger, noise, engine.agreed.smallest_sum)}
        return Seen(training, [test], engine.clients, {}, True), found
    train, test = _evaluate(whole, engine, trained)
    assert train is not None
    training = _training(posed, problem, trained, train, engine)
    return Seen(training, [test], engine.clients, {}, True), {}


def _evaluate(
    problem: Problem, engine: Network, trained: Trained
) -> tuple[Evidence | None, Evidence]:
    private = engine.agreed.dp is not None
    question = Evaluate.of(trained.predictors, test_only=private, scores="test")
    seen: tuple[Evidence | None, Evidence] = engine.ask(problem, question)
    return seen


def _training(
    posed: Posed, problem: Problem, trained: Trained, train: Evidence, engine: Network
) -> Training:
    mean = largest([train.losses.mean(k) for k in range(len(posed.constraints))])
    reason = explain(problem, trained, train.tally, posed)
    return training_of(posed, train.tally, mean, engine.by_silo(problem), reason)


def _is_round(entry: Any) -> bool:
    return QUESTIONS[entry.kind].moving
