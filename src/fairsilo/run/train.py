"""One training run: train, train without the constraint beside it, measure both."""

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from fairsilo.data import Encoder
from fairsilo.data.leakage import SEEN
from fairsilo.engine import Clientwise, Engine
from fairsilo.errors import FairSiloWarning
from fairsilo.method import METHODS, Trained
from fairsilo.method.base import solved
from fairsilo.method.fedavg import fedavg
from fairsilo.method.promise import promise
from fairsilo.method.repair import train_and_repair
from fairsilo.method.target import reach, search
from fairsilo.question import Problem
from fairsilo.run.again import noted
from fairsilo.run.decide import decided
from fairsilo.run.group_seen import compare_without
from fairsilo.run.logged import log_notes, logged
from fairsilo.run.measure import Metrics, measure, on_average, seen_here
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import Posed, plan
from fairsilo.run.settle import Settled, settle
from fairsilo.run.tallies import test_evidence
from fairsilo.run.terms import terms_of
from fairsilo.solver import Status, Watch


@dataclass(frozen=True)
class Run:
    """A finished run, in memory."""

    options: Options
    prepared: Posed
    client_names: tuple[str, ...]
    trained: Trained
    metrics: Metrics
    terms: list[dict[str, Any]] = field(default_factory=list)
    """What every term adds to a score, where it is a sum (`run.terms`)."""


def train(
    options: Options, settled: Settled, engine: Engine, watch: Watch | None = None
) -> Trained:
    """By the options' method; where they set a target in rates, by what meets it."""
    trained = _train(options, settled, engine, logged(watch))
    before = trained.rounds_before + settled.rounds
    notes = (*settled.notes, *trained.notes)
    stopped = settled.stops and trained.outcome.status is Status.RUNNING
    told = replace(trained, rounds_before=before, notes=notes, stopped=stopped)
    return noted(options, told)


def _train(options: Options, settled: Settled, engine: Engine, watch: Watch | None) -> Trained:
    problem, method = settled.problem, METHODS[options.method]
    target = None if method.decides else options.target_deo
    confidence = options.target_confidence
    if target is not None and confidence is not None:
        return promise(problem, engine, target, confidence, watch)
    if target is not None and options.target_by == "search":
        return search(problem, engine, target, watch)
    if target is not None:
        # Since that fit a silo may have been lost.
        same = settled.counted == engine.count(problem).rows
        return reach(problem, engine, target, watch, settled.fit if same else None)
    if options.after is not None and method.repair is not None:
        base = METHODS[options.after]
        method.check(problem)
        repaired = train_and_repair(method.repair, base)(problem, engine, watch)
        limit = f", trained with epsilon {options.epsilon:g}" * (base.limits == "loss")
        note = f"{method.name} changed the answers of {base.title}{limit}"
        return replace(repaired, notes=(note, *repaired.notes))
    return method(problem, engine, watch)


def settle_here(
    options: Options, prepared: Prepared, problem: Problem, engine: Clientwise
) -> tuple[Settled, Prepared, Clientwise]:
    """`settle` in a simulation: with pairs its rows have more columns."""
    last = prepared, engine

    def learn(encoder: Encoder) -> tuple[Prepared, Clientwise]:
        nonlocal last
        crossed = prepared.crossed(encoder)
        last = crossed, crossed.engine(options)
        return last

    settled = settle(options, prepared, problem, engine, learn)
    return settled, *last


def unlimited(
    options: Options, posed: Posed, settled: Settled, engine: Engine, watch: Watch | None = None
) -> Trained:
    """The model without a limit, to compare: trained already where the penalty was chosen."""
    same = {"penalty": settled.problem.penalty, "rounds": settled.problem.rounds}
    problem = replace(plan(options, posed), **same)  # type: ignore[arg-type]
    free = settled.fit
    return fedavg(problem, engine, watch) if free is None else solved(problem, free)


def terms_here(
    options: Options,
    posed: Posed,
    settled: Settled,
    trained: Trained,
    free: Trained | None,
    engine: Engine,
) -> list[dict[str, Any]]:
    """The terms of the model; beside them those without a limit, where these are known."""
    if settled.problem.promise is not None:
        return terms_of(posed.encoder, trained, None, None, 1.0)
    if not METHODS[options.method].limited:
        free = trained
    without = settled.fit if free is None else free.outcome
    problem = settled.problem
    unequal = problem.weighted or problem.class_weight is not None
    rows = None if unequal else float(engine.count(problem).rows)
    return terms_of(posed.encoder, trained, without, problem.penalty, rows)


def execute(
    options: Options,
    watch: Watch | None = None,
    baseline: bool = True,
    beside: Watch | None = None,
) -> Run:
    """Read the data, train, evaluate. Nothing is written.

    `baseline`: also train without limits, which `beside` watches, and without the group, to
    compare.
    """
    if options.dp_epsilon is not None:
        from fairsilo.run.private import execute_private

        return execute_private(options, watch)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FairSiloWarning)
        prepared = prepare(options)
    engine, problem = prepared.engine(options), plan(options, prepared)
    started = time.perf_counter()
    settled, prepared, engine = settle_here(options, prepared, problem, engine)
    problem = settled.problem
    trained = decided(options.decide_at, problem, train(options, settled, engine, watch), engine)
    seconds = time.perf_counter() - started
    doubled = any(SEEN in str(one.message) for one in told)
    seen = replace(seen_here(options, prepared, problem, trained), unseen=not doubled)
    metrics = measure(options, prepared, problem, trained, seen, seconds)
    metrics["notes"] += (said := [str(one.message) for one in told])
    log_notes(said)
    if baseline:
        compare_without(options, problem, metrics, execute)
    free = None
    if baseline and METHODS[options.method].limited:
        free = unlimited(options, prepared, settled, engine, beside)
        free = decided(options.decide_at, problem, free, engine)
        evidence = [test_evidence(prepared, one, options.seed) for one in free.predictors]
        metrics["unconstrained"] = {"test": on_average(prepared, evidence)}
    terms = terms_here(options, prepared, settled, trained, free, engine)
    return Run(options, prepared, prepared.client_names, trained, metrics, terms)
