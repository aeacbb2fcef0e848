"""One training run: train, train without the constraint beside it, measure both."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.engine import Outcome, Watch
from fairsilo.evaluate import Tally, average, cells_of, claims_of, clients_of, summary
from fairsilo.evaluate.certificate import Names, certify, refuse
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import accuracy as accuracy_of
from fairsilo.evaluate.metrics import deo, dgeo_mean, dgeo_pooled, loss
from fairsilo.method import BASES, METHODS, REPAIRS, Predictor, Task, Trained, repair
from fairsilo.method.answers import on_own_rows
from fairsilo.method.target import proxy, search
from fairsilo.model import MODELS
from fairsilo.run.gaps import constraint_gaps, gaps_of
from fairsilo.run.options import Options
from fairsilo.run.prepare import SETUP_EXCHANGES, Prepared, prepare
from fairsilo.solver import SOLVERS, Agp, Status

ROUNDS = {"newton": 150, "lbfgs": 300, "agp": 20_000}
"""The most rounds a solver gets unless --rounds says otherwise."""
LARGEST_MATRIX = {"lr": 2_000, "mlp": 400}
"""Models with more parameters train by L-BFGS: the rounds that a (p, p) matrix saves no longer
pay for computing and sending it (ADULT's network, p = 881: 13 s by L-BFGS, minutes by Newton)."""

LIMITS_LOSS = ("fedfair", "lco", "st")
"""The methods whose epsilon is a limit on DGEO."""

Metrics = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A finished run, in memory."""

    options: Options
    prepared: Prepared
    trained: Trained
    metrics: Metrics


def plan(options: Options, prepared: Prepared) -> Task:
    """The task that the options describe, with the defaults filled in."""
    model = MODELS[options.model](prepared.encoder_width, len(prepared.schema.classes))
    name = options.solver or ("newton" if model.size <= LARGEST_MATRIX[options.model] else "lbfgs")
    task = Task(
        federation=prepared.federation,
        model=model,
        constraints=prepared.constraints,
        epsilon=options.epsilon if prepared.epsilon is None else prepared.epsilon,
        estimator=options.estimator,  # type: ignore[arg-type]
        solver=SOLVERS[name](),
        rounds=options.rounds or ROUNDS[name],
        seed=options.seed,
        engine=options.engine,
        group_columns=prepared.group_columns,
        min_cell=options.min_cell,
    )
    if options.target_deo is not None and options.target_by == "proxy":
        return proxy(task, options.target_deo)
    return task


def train(options: Options, task: Task, watch: Watch | None = None) -> Trained:
    """By the options' method; where they set a target, look for the epsilon that meets it."""
    if options.target_deo is not None and options.target_by == "search":
        return search(task, options.target_deo, watch)
    if options.after is not None:
        base, fit = METHODS[options.after], REPAIRS[options.method]
        repaired = repair(task, watch, options.method, fit, base, options.after)
        limit = f", trained with epsilon {options.epsilon:g}" * (options.after in LIMITS_LOSS)
        note = f"{options.method} changed the answers of {BASES[options.after]}{limit}"
        return replace(repaired, notes=(note, *repaired.notes))
    return METHODS[options.method](task, watch)


def execute(options: Options, watch: Watch | None = None, baseline: bool = True) -> Run:
    """Read the data, train, evaluate. Nothing is written."""
    if options.dp_epsilon is not None:
        from fairsilo.run.private import execute_private

        return execute_private(options, watch)
    prepared = prepare(options)
    task = plan(options, prepared)
    started = time.perf_counter()
    trained = train(options, task, watch)
    seconds = time.perf_counter() - started
    metrics = measure(options, prepared, task, trained, seconds)
    if baseline and options.method != "fedavg":
        plain = plan(
            replace(options, method="fedavg", after=None, epsilons=(), target_deo=None), prepared
        )
        free = METHODS["fedavg"](plain, None)
        evidence = [test_evidence(prepared, one, options.seed) for one in free.predictors]
        metrics["unconstrained"] = {"test": _on_average(prepared, evidence)}
    return Run(options, prepared, trained, metrics)


@dataclass(frozen=True)
class Training:
    """What is said of the training rows: measured, or under differential privacy released."""

    figures: Metrics
    """`train` of metrics.json."""
    by_client: list[Metrics]
    reason: str
    common: int | None = None
    """The most frequent class; None: as the rows say."""
    gaps: list[Metrics] | None = None
    """Of every constraint, its gap in losses and in rates."""


def measure(
    options: Options,
    prepared: Prepared,
    task: Task,
    trained: Trained,
    seconds: float,
    training: Training | None = None,
) -> Metrics:
    """The keys of design section 7, and what the report shows beside them."""
    training = training or measure_training(options, prepared, task, trained)
    limited = options.method in LIMITS_LOSS and options.target_deo is None
    outcome, clients = trained.outcome, prepared.federation.clients
    single = isinstance(task.solver, Agp) and task.engine == "pooled" and options.method != "af"
    converged = outcome.status is Status.CONVERGED
    test = [test_evidence(prepared, one, options.seed) for one in trained.predictors]
    limit = float(np.max(task.epsilon)) if limited else None
    found = {
        "method": options.method,
        **({} if options.after is None else {"after": options.after}),
        "solver": "own" if options.method == "af" else task.solver.name,
        "model": options.model,
        "estimator": {"lco": "local", "fedfair": options.estimator}.get(options.method),
        "notion": options.notion,
        "epsilon": limit,
        "target_deo": options.target_deo,
        **({"tau": options.epsilon} if options.method == "af" else {}),
        "clients": clients,
        "rounds": outcome.rounds,
        "rounds_before": trained.rounds_before,
        "converged": converged,
        "reason": training.reason,
        "train": training.figures,
        "test": {
            "rows": len(prepared.test_y),
            **_on_average(prepared, test),
            "cells": cells_of(
                [one.tally for one in test], prepared.schema.groups, prepared.schema.classes
            ),
            **_claims(prepared, test),
        },
        "constraints": constraint_gaps(
            prepared,
            task.epsilon if limited else None,
            training.gaps,
            reduce(add, (one.tally for one in test)),
        ),
        "constant": constant_metrics(prepared, training.common),
        "certificate": _certificate(prepared, test, task.epsilon if limited else None),
        **bytes_sent(trained, clients, single),
        # AF asks once more: for the sums of the columns that its reference points follow.
        "setup_exchanges": SETUP_EXCHANGES + (options.method == "af"),
        "seconds": seconds,
        "notes": list(trained.notes),
        "by_client": training.by_client,
    }
    return without_figures(found) if outcome.status is Status.DIVERGED else found


def measure_training(
    options: Options, prepared: Prepared, task: Task, trained: Trained
) -> Training:
    """The training rows as they are. One model per client is measured client by client."""
    (silos,) = tallies_of_clients(prepared, [trained], options.seed)
    whole = sum(silos[1:], start=silos[0])
    pairs = prepared.constraints
    return Training(
        figures={
            "rows": prepared.federation.rows,
            "loss": loss(whole),
            "accuracy": accuracy_of(whole),
            "deo": deo(whole, prepared.compared),
            "rate_gap": deo(whole, pairs),
            "dgeo_mean": dgeo_mean(silos, pairs),
            "dgeo_pooled": dgeo_pooled(whole, pairs),
        },
        by_client=clients_of(dict(zip(prepared.client_names, silos, strict=True)), pairs),
        reason=explain(task, trained, whole, prepared),
        gaps=[gaps_of(whole, pair) for pair in pairs],
    )


def tallies_of_clients(
    prepared: Prepared, trained: Sequence[Trained], seed: int
) -> list[list[Tally]]:
    """For each training, of each client's training rows, by the common model or by its own."""
    federation = prepared.federation
    found = []
    answers = on_own_rows(trained, federation, seed)
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
        )
        found.append(
            [
                _with_claims(tally, next(own), part.x, part.y, part.s, prepared)
                for tally, part in zip(tallies, federation.parts(), strict=True)
            ]
        )
    return found


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
        "certificate": refuse("training diverged", metrics["certificate"]["limit"]),
        "constraints": [
            {**one, "train": emptied(one["train"]), "test": emptied(one["test"])}
            for one in metrics["constraints"]
        ],
        "by_client": [emptied(one) for one in metrics["by_client"]],
    }


def tally_of(
    predictor: Predictor, x: Floats, y: Ints, s: Ints, prepared: Prepared, seed: int
) -> Tally:
    """Counts and losses of a predictor on some rows."""
    groups, classes = len(prepared.schema.groups), len(prepared.schema.classes)
    labels, losses = predictor.labels(x, s, seed), predictor.losses(x, y, s)
    tally = Tally.of(y, s, labels, losses, groups=groups, classes=classes)
    return _with_claims(tally, predictor, x, y, s, prepared)


def _with_claims(
    tally: Tally, predictor: Predictor, x: Floats, y: Ints, s: Ints, prepared: Prepared
) -> Tally:
    """The tally, with the losses under the classes that constraints claim."""
    groups, classes = tally.losses.shape
    claims = {one.claim for one in prepared.constraints if one.claim is not None}
    if not claims:
        return tally
    claimed = np.zeros((2, groups, classes))
    for claim in claims:
        under = predictor.losses(x, np.full_like(y, claim), s)
        for power, values in enumerate((under, under**2)):
            claimed[power, :, claim] = np.bincount(s, weights=values, minlength=groups)
    return replace(tally, claimed=claimed)


def ending(
    outcome: Outcome, tolerance: float, tally: Tally, classes: Sequence[str], rows: str = "training"
) -> str:
    """Why a solver ended, in words; a collapsed model is called so even where it converged.

    A diverged one is not: what it predicts means nothing. `tally` is of the rows that are named.
    """
    last = outcome.last
    left = f"KKT residual {float(last.residual):.1e}, violation {float(last.violation):.1e}"
    limit = f"tolerance {tolerance:.0e}"
    reason = {
        Status.CONVERGED: f"converged: {left}, {limit}",
        Status.RUNNING: f"not converged: {outcome.rounds} rounds reached with {left}, {limit}",
        Status.STALLED: f"not converged: no further progress with {left}, {limit}",
        Status.DIVERGED: "diverged: a sum over the rows is not a finite number",
    }[outcome.status]
    predicted = tally.counts.sum(axis=(0, 1))
    if outcome.status is not Status.DIVERGED and np.count_nonzero(predicted) == 1:
        name = classes[int(np.argmax(predicted))]
        reason = f"collapsed to a constant: every {rows} row is predicted {name!r}; {reason}"
    return reason


def explain(task: Task, trained: Trained, train: Tally, prepared: Prepared) -> str:
    """`ending`, and how many of several clients' models are constant."""
    classes = prepared.schema.classes
    reason = ending(trained.outcome, task.solver.tolerance, train, classes)
    if reason.startswith(("collapsed", "diverged")):
        return reason
    last, alone = trained.outcome.last, _limited_alone(task)
    if alone and trained.outcome.status is not Status.CONVERGED and last.violation > 0:
        return (
            f"{reason}; no model was found that keeps the mean loss of every group within the "
            f"limit, the closest has {float(np.abs(last.d).max()):.4f}: raise epsilon"
        )
    if len(trained.predictors) > 1:
        x, s = prepared.test_x, prepared.test_s
        constant = sum(len(np.unique(one.labels(x, s, 0))) == 1 for one in trained.predictors)
        if constant:
            count = f"{constant} of {len(trained.predictors)} clients' models"
            return f"collapsed to a constant: {count} give every test row one class; {reason}"
    return reason


def _limited_alone(task: Task) -> bool:
    """Whether a group's loss is limited by itself: of all notions this one can be too much."""
    cells = (task.federation.groups, task.federation.classes)
    return any(not one.sides(*cells)[1].any() for one in task.constraints)


def test_evidence(prepared: Prepared, predictor: Predictor, seed: int) -> Evidence:
    """What the test rows say of a predictor: silo by silo where they belong to silos."""
    schema, x, y, s = prepared.schema, prepared.test_x, prepared.test_y, prepared.test_s
    predicted, losses = predictor.labels(x, s, seed), predictor.losses(x, y, s)
    owner = np.zeros_like(y) if prepared.test_client is None else prepared.test_client
    shape = {"groups": len(schema.groups), "classes": len(schema.classes)}
    tallies = (
        _with_claims(
            Tally.of(y[of], s[of], predicted[of], losses[of], **shape),
            predictor, x[of], y[of], s[of], prepared,
        )
        for of in (owner == k for k in range(int(owner.max(initial=0)) + 1))
    )  # fmt: skip
    pairs = prepared.cell_pairs
    return reduce(add, (Evidence.of_silo(one, pairs) for one in tallies))


def _claims(prepared: Prepared, test: Sequence[Evidence]) -> Metrics:
    """The losses of the test rows under the classes that constraints claim, where they do."""
    claims = sorted({one.claim for one in prepared.constraints if one.claim is not None})
    if not claims or len(test) > 1:
        return {}
    schema = prepared.schema
    return {"claims": claims_of(test[0].tally, schema.groups, schema.classes, claims)}


def _certificate(
    prepared: Prepared, test: Sequence[Evidence], epsilon: float | Sequence[float] | None
) -> Metrics:
    limit = None if epsilon is None else float(np.min(epsilon))
    if len(test) > 1:
        return refuse("this method leaves one model per client, and a certificate is of one", limit)
    if len(prepared.cell_pairs) < len(prepared.constraints):
        return refuse("a certificate is of equal opportunity between pairs of groups", limit)
    names = Names(prepared.schema.groups, prepared.schema.classes)
    by_silo = prepared.test_client is not None
    return certify(test[0], prepared.cell_pairs, names, epsilon, by_silo=by_silo)


def _on_average(prepared: Prepared, test: Sequence[Evidence]) -> dict[str, float | None]:
    """Test metrics, averaged over the predictors."""
    return average([summary(one.tally, prepared.constraints, prepared.compared) for one in test])


def constant_tally(prepared: Prepared, common: int | None = None) -> Tally:
    """Of the test rows, were all of them given the most frequent training class."""
    schema, y, s = prepared.schema, prepared.test_y, prepared.test_s
    if common is None:
        common = int(np.argmax(np.bincount(prepared.federation.y, minlength=len(schema.classes))))
    return Tally.of(
        y,
        s,
        np.full(len(y), common),
        np.zeros(len(y)),
        groups=len(schema.groups),
        classes=len(schema.classes),
    )


def constant_metrics(prepared: Prepared, common: int | None = None) -> dict[str, float | None]:
    """Always the most frequent training class: what any model has to beat."""
    tally = constant_tally(prepared, common)
    result = summary(tally, prepared.constraints, prepared.compared)
    result.pop("dgeo_pooled")
    return result
