"""metrics.json: what is known of a trained model, from tallies of rows."""

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fairsilo.evaluate import Tally, average, cells_of, claims_of, clients_of, summary
from fairsilo.evaluate.certificate import refuse
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import accuracy as accuracy_of
from fairsilo.evaluate.metrics import (
    deo,
    dgeo_mean,
    dgeo_pooled,
    loss,
    loss_gap,
    rate_gap,
    within,
)
from fairsilo.evaluate.scores import curves_of
from fairsilo.evaluate.worth import worth
from fairsilo.fairness import Constraint
from fairsilo.method import METHODS, Trained
from fairsilo.question import Problem
from fairsilo.run.certified import certificate_of
from fairsilo.run.decide import cut_of, cuts_of, decision_note
from fairsilo.run.endings import explain, idle_limit
from fairsilo.run.group_seen import group_feature
from fairsilo.run.logged import log_metrics
from fairsilo.run.nobody import groupless_note, other_groups, others_note, without_group
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.problem import HISTOGRAMS, SETUP_EXCHANGES, Posed, pooled_below, why_solver
from fairsilo.run.tallies import tallies_of_clients, test_evidence
from fairsilo.solver import Agp, Status
from fairsilo.solver.penalty import Penalty

Metrics = dict[str, Any]


@dataclass(frozen=True)
class Training:
    """What is said of the training rows: measured, or under differential privacy released."""

    figures: Metrics
    """`train` of metrics.json."""
    by_client: list[Metrics]
    reason: str
    common: int
    """The most frequent class."""
    gaps: list[Metrics] | None = None
    """Of every constraint, its gap in losses and in rates."""
    others: dict[str, int] | None = None
    """Rows by group, of the groups that are not compared."""


@dataclass(frozen=True)
class Seen:
    """What is known of the trained model on rows."""

    training: Training
    test: Sequence[Evidence]
    """Of every predictor on all test rows; or one, where each silo tested its own model."""
    clients: int
    sent: dict[str, int]
    """bytes_up, bytes_down and setup_exchanges, which are questions."""
    by_silo: bool
    """Whether test rows belong to silos."""
    unseen: bool = True
    """Whether it is known that training did not see the test rows."""


def seen_here(
    options: Options,
    prepared: Prepared,
    problem: Problem,
    trained: Trained,
    training: Training | None = None,
) -> Seen:
    """What a simulation knows: all rows."""
    clients, method = prepared.federation.clients, METHODS[options.method]
    pooled = options.engine == "pooled" and not method.own_solver
    single = isinstance(problem.solver, Agp) and pooled
    setup = setup_questions(options, prepared, problem)
    return Seen(
        training or measure_training(options, prepared, problem, trained),
        [test_evidence(prepared, one, options.seed) for one in trained.predictors],
        clients,
        {**bytes_sent(trained, clients, single), "setup_exchanges": setup},
        prepared.test_client is not None,
    )


def setup_questions(options: Options, posed: Posed, problem: Problem) -> int:
    """How many questions silos answer beside the rounds and the evaluation: sums of the encoder,
    counts, and what pairs are found by."""
    method, exact = METHODS[options.method], problem.promise is None
    pairs = isinstance(options.crossed, int) and options.crossed > 0
    chosen = exact and options.strength in ("auto", "validation")
    target = options.target_deo is not None and not method.decides
    tested = options.target_by == "search" or options.target_confidence is not None
    aside = options.strength == "validation" or options.early_stopping or (target and tested)
    more = (
        bool(posed.groups) and pooled_below(options, posed.schema) > 0,
        exact and bool(aside),
        problem.weighted and exact and (pairs or chosen or target),
        pairs,
    )
    return (
        SETUP_EXCHANGES + method.setup + HISTOGRAMS * (problem.model.binned and exact) + sum(more)
    )


def measure(
    options: Options,
    posed: Posed,
    problem: Problem,
    trained: Trained,
    seen: Seen,
    seconds: float,
) -> Metrics:
    """The promised keys of metrics.json, and what the report shows beside them."""
    training, method = seen.training, METHODS[options.method]
    test = [replace(one, tally=one.tally.effective) for one in seen.test]
    limited = method.limits == "loss" and options.target_deo is None
    outcome, schema = trained.outcome, posed.schema
    whole = reduce(add, (one.tally for one in test))
    limit = float(np.max(problem.epsilon)) if limited else None
    test_figures = {**on_average(posed, test), **without_group(posed, test[0].tally)}
    found = {
        "method": options.method,
        **({} if options.after is None else {"after": options.after}),
        "solver": "own" if method.own_solver else problem.solver.name,
        "model": options.model,
        "estimator": problem.estimator if method.shared else None,
        "notion": options.notion,
        "epsilon": limit,
        "target_deo": options.target_deo,
        "target_met": _target_met(options, training.figures),
        **(
            {}
            if options.target_confidence is None
            else {"target_confidence": options.target_confidence}
        ),
        **({} if options.decide_at is None else {"decide_at": cut_of(trained)}),
        **cuts_of(trained, schema.groups),
        **({"tau": options.epsilon} if method.limits == "tau" else {}),
        **({} if seen.unseen else {"unseen": False}),
        "clients": seen.clients,
        "rounds": outcome.rounds,
        "rounds_before": trained.rounds_before,
        "converged": outcome.status is Status.CONVERGED,
        **({"stopped_early": True} if trained.stopped else {}),
        "reason": training.reason,
        "train": training.figures,
        "test": {
            "rows": test[0].tally.size,
            **weighted_rows(test[0].tally),
            **test_figures,
            "cells": cells_of([one.tally for one in test], schema.groups, schema.classes),
            **_claims(posed, test),
        },
        "constraints": constraint_gaps(
            posed, problem.epsilon if limited else None, training.gaps, whole
        ),
        "constant": constant_metrics(posed, test[0].tally, training.common),
        **_curves(posed, test),
        "worth": worth(whole, schema.classes, training.common, len(test), posed.compared_classes),
        "certificate": certificate_of(
            options, posed, test, problem.epsilon if limited else None, seen.by_silo, seen.unseen
        ),
        **seen.sent,
        "seconds": seconds,
        **penalty_of(options, problem),
        **group_feature(options, schema),
        "solver_why": why_solver(options, problem.model.size),
        "peak_memory": peak_memory(),
        "notes": [
            *trained.notes,
            *idle_limit(options, problem, outcome),
            *groupless_note(training.figures, test_figures),
            *others_note(options, training.others, other_groups(posed, test[0].tally)),
            *weight_note(options, test[0].tally),
            *decision_note(options.decide_at, cut_of(trained), schema.classes),
        ],
        "by_client": training.by_client,
    }
    found = without_figures(found) if outcome.status is Status.DIVERGED else found
    log_metrics(found)
    return found


def penalty_of(options: Options, problem: Problem) -> Metrics:
    """How the penalty was chosen, and its strengths by name; nothing where there is none."""
    if not isinstance(problem.penalty, Penalty):
        return {}
    by = options.strength if isinstance(options.strength, str) else "given"
    if by == "auto" and problem.promise is not None:
        by = "noise"
    named = zip(problem.penalty.terms, problem.penalty.strengths, strict=True)
    return {"penalty": {"by": by, "strengths": {term.name: value for term, value in named}}}


def measure_training(
    options: Options, prepared: Prepared, problem: Problem, trained: Trained
) -> Training:
    """The training rows as they are. One model per client is measured client by client."""
    (silos,) = tallies_of_clients(prepared, [trained], options.seed)
    whole = sum(silos[1:], start=silos[0])
    by_client = dict(zip(prepared.client_names, silos, strict=True))
    reason = explain(problem, trained, whole, prepared)
    return training_of(prepared, whole, dgeo_mean(silos, prepared.constraints), by_client, reason)


def training_of(
    posed: Posed, whole: Tally, mean: float | None, by_client: dict[str, Tally], reason: str
) -> Training:
    """What the tally of all training rows says; `mean` is the mean of the clients' own gaps."""
    pairs = posed.constraints
    return Training(
        figures={
            "rows": whole.size,
            "loss": loss(whole),
            "accuracy": accuracy_of(whole),
            "deo": deo(whole, posed.compared),
            "rate_gap": deo(whole, pairs),
            "dgeo_mean": mean,
            "dgeo_pooled": dgeo_pooled(whole, pairs),
            **without_group(posed, whole),
        },
        by_client=clients_of(by_client, pairs),
        reason=reason,
        common=int(np.argmax(whole.cells.sum(axis=0))),
        gaps=[gaps_of(whole, pair) for pair in pairs],
        others=other_groups(posed, whole),
    )


def weighted_rows(tally: Tally) -> dict[str, float]:
    """As how many rows of one weight those with weights count; nothing where they have none."""
    return {} if tally.rows is None else {"effective_rows": float(tally.counts.sum())}


def weight_note(options: Options, test: Tally) -> list[str]:
    """Say that rows have weights."""
    if test.rows is None:
        return []
    return [
        f"rows count by their weight ({options.weight}), in training and in all figures: the "
        f"{test.size:,} test rows say as much as {test.counts.sum():,.0f} of the same weight, and "
        "tables of groups count these"
    ]


def constraint_gaps(
    posed: Posed,
    limits: float | Sequence[float] | None,
    train: Sequence[dict[str, float | None]] | None,
    test: Tally,
) -> list[dict[str, Any]]:
    """What metrics.json says of each; without limits on losses, epsilon is None."""
    count = len(posed.constraints)
    each = [None] * count if limits is None else np.broadcast_to(limits, count).tolist()
    seen = train or [{"loss": None, "rate": None}] * count
    return [
        {
            "name": posed.describe(constraint),
            "epsilon": limit,
            "train": on_training_rows,
            "test": gaps_of(test, constraint),
        }
        for constraint, limit, on_training_rows in zip(posed.constraints, each, seen, strict=True)
    ]


def gaps_of(tally: Tally, constraint: Constraint) -> dict[str, float | None]:
    """The gap of a constraint in losses and in rates, on some rows."""
    return {"loss": loss_gap(tally, constraint), "rate": rate_gap(tally, constraint)}


def bytes_sent(trained: Trained, clients: int, single: bool) -> dict[str, int]:
    """What all clients together sent and received in training; `single`: as float32."""
    times = (4 if single else 8) * clients * (trained.outcome.rounds + trained.rounds_before)
    return {
        "bytes_up": trained.numbers_up * times,
        "bytes_down": trained.numbers_down * times,
    }


def without_figures(metrics: Metrics) -> Metrics:
    """The metrics of a diverged run: its last point is no model, so nothing is said of it."""

    def emptied(part: Metrics) -> Metrics:
        return {key: part[key] if key in ("rows", "client") else None for key in part}

    return {
        **metrics,
        "train": emptied(metrics["train"]),
        "test": {**emptied(metrics["test"]), "cells": [], "claims": []},
        "worth": emptied(metrics["worth"]),
        **({"curves": []} if "curves" in metrics else {}),
        "certificate": refuse("training diverged", metrics["certificate"]["limit"]),
        "constraints": [
            {**one, "train": emptied(one["train"]), "test": emptied(one["test"])}
            for one in metrics["constraints"]
        ],
        "by_client": [emptied(one) for one in metrics["by_client"]],
    }


def _target_met(options: Options, train: Metrics) -> bool | None:
    """Whether the rates of the training rows are within the target; None without one."""
    gap = train.get("rate_gap")
    return None if options.target_deo is None or gap is None else within(gap, options.target_deo)


def _curves(posed: Posed, test: Sequence[Evidence]) -> Metrics:
    """How well the one model's probabilities rank and fit the test rows, by group."""
    scores = test[0].tally.scores
    if scores is None or len(test) > 1:
        return {}
    return {"curves": curves_of(scores, posed.schema.groups, posed.schema.classes)}


def _claims(posed: Posed, test: Sequence[Evidence]) -> Metrics:
    """The losses of the test rows under the classes that constraints claim, where they do."""
    claims = sorted({one.claim for one in posed.constraints if one.claim is not None})
    if not claims or len(test) > 1:
        return {}
    schema = posed.schema
    return {"claims": claims_of(test[0].tally, schema.groups, schema.classes, claims)}


def on_average(posed: Posed, test: Sequence[Evidence]) -> dict[str, float | None]:
    """Test metrics, averaged over the predictors."""
    return average([summary(one.tally, posed.constraints, posed.compared) for one in test])


def constant_tally(test: Tally, common: int) -> Tally:
    """Of the test rows, were all of them given one class: without losses."""
    counts = np.zeros_like(test.counts)
    counts[:, :, common] = test.cells
    return Tally(counts, np.zeros_like(test.losses), np.zeros_like(test.squares))


def constant_metrics(posed: Posed, test: Tally, common: int) -> dict[str, float | None]:
    """Always the most frequent training class: what any model has to beat."""
    result = summary(constant_tally(test, common), posed.constraints, posed.compared)
    result.pop("dgeo_pooled")
    return result


def peak_memory() -> int:
    """The most bytes that this process has held so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else 1024 * int(most)
