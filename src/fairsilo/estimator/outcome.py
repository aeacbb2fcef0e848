"""What a fit leaves: one table of the rounds, one of the constraints, the reason it ended."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.dp import Mechanism
from fairsilo.estimator.measured import Told
from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import loss_gap
from fairsilo.evaluate.scores import counted
from fairsilo.evaluate.worth import worth
from fairsilo.fairness import Constraint
from fairsilo.fairness.words import class_name, pair_name, spelled
from fairsilo.method import METHODS, Trained
from fairsilo.predictor import Committee
from fairsilo.predictor.answers import Answered
from fairsilo.question import Problem
from fairsilo.run.decide import decided
from fairsilo.run.endings import ending, explain, idle_limit
from fairsilo.run.logged import LOG
from fairsilo.run.measure import training_of
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.private import (
    begin,
    private_ending,
    released_by,
    released_training,
    spent,
    without,
)
from fairsilo.run.problem import plan
from fairsilo.run.store import history
from fairsilo.run.tallies import tally_of
from fairsilo.run.terms import terms_of
from fairsilo.run.train import Run, settle_here, terms_here
from fairsilo.run.train import train as train_by


@dataclass(frozen=True)
class Fitted:
    """A finished training in the terms of the estimator."""

    prepared: Prepared
    trained: Trained
    history: pd.DataFrame
    constraints: pd.DataFrame
    reason: str
    dp: dict[str, Any] | None = None
    """What a private fit spent, as `dp` in metrics.json."""
    warnings: tuple[str, ...] = ()
    """That the model is of little use."""
    terms: list[dict[str, Any]] = field(default_factory=list)
    """What every term adds to a score, as in model.json."""
    told: Told | None = None
    """What a report needs beside test rows."""


def train(
    options: Options,
    prepared: Prepared,
    classes: Sequence[Any],
    mechanism: Mechanism | None = None,
    group: str = "",
) -> Fitted:
    """Train by the method that the options name and sum up how it went.

    `group` is the name of the sensitive column, if it has one.
    Under differential privacy, of the training rows only what was released is said.
    """
    started = time.perf_counter()
    if mechanism is None:
        engine, problem = prepared.engine(options), plan(options, prepared)
        settled, prepared, engine = settle_here(options, prepared, problem, engine)
        problem = settled.problem
        trained = decided(options.decide_at, problem, train_by(options, settled, engine), engine)
        rows, committee = prepared.federation, Committee(trained.predictors, len(classes))
        tally = tally_of(committee, rows.x, rows.y, rows.s, prepared, options.seed, rows.weight)
        reason, dp = explain(problem, trained, tally, prepared), None
        common = int(np.argmax(tally.cells.sum(axis=0)))
        why = _why_useless(options, prepared, trained, tally, common)
        told = [] if why is None else [f"on the training rows the model is {why}"]
        training = training_of(prepared, tally, None, {}, reason)
        more = idle_limit(options, problem, trained.outcome)
        reason = "; ".join([reason, *settled.notes, *more])
        terms = terms_here(options, prepared, settled, trained, None, engine)
    else:
        told = []
        problem, prepared, private = begin(options, prepared, mechanism)
        trained = METHODS[options.method](problem, private)
        trained = decided(options.decide_at, problem, trained, private)
        shape = len(prepared.schema.groups), len(classes)
        tally = Tally(np.zeros((*shape, len(classes)), np.int64), np.zeros(shape), np.zeros(shape))
        tolerance = private.under_noise(without(options, problem)).solver.tolerance
        plain = ending(trained.outcome, tolerance, tally, prepared.schema.classes)
        reason = private_ending(trained.outcome, plain)
        terms = terms_of(prepared.encoder, trained, None, None, 1.0)
        dp = spent(mechanism.ledger, options.dp_noise, mechanism.smallest)
        released = released_by(private, problem, None)
        training = released_training(released, prepared, trained.outcome, tolerance, tally)
    seconds = time.perf_counter() - started
    LOG.info("%s: %d rounds, %s", options.method, trained.outcome.rounds, reason)
    return Fitted(
        prepared,
        trained,
        _history(options, prepared, trained),
        _constraints(prepared, classes, problem, trained, tally, options.method, group),
        reason,
        dp,
        tuple(told),
        terms,
        Told.of(options, prepared, trained, training, seconds),
    )


def _why_useless(
    options: Options, prepared: Prepared, trained: Trained, tally: Tally, common: int
) -> str | None:
    """Why the model is hardly better than one answer, with its AUC where there is one model."""
    schema, rows = prepared.schema, prepared.federation
    compared = prepared.compared_classes
    why = worth(tally, schema.classes, common, compared=compared)["why"]
    if why is None or len(trained.predictors) != 1:
        return None if why is None else str(why)
    chances = Answered.of(trained.predictors[0], rows.x, rows.y, rows.s).chances
    scores = counted(chances, rows.y, rows.s, len(schema.groups), rows.weight)
    tally = replace(tally, scores=scores).effective
    return str(worth(tally, schema.classes, common, compared=compared)["why"])


def _history(options: Options, prepared: Prepared, trained: Trained) -> pd.DataFrame:
    """The run folder's table, less its bytes: within one process nothing is sent."""
    sent = {"bytes_up": 0, "bytes_down": 0}
    return history(Run(options, prepared, prepared.client_names, trained, sent)).drop(
        columns=list(sent)
    )


def _constraints(
    prepared: Prepared,
    classes: Sequence[Any],
    problem: Problem,
    trained: Trained,
    tally: Tally,
    method: str,
    group: str,
) -> pd.DataFrame:
    """One row per pair and class, and per client where each has its own constraints.

    Where the method limits D, it is the solver's; elsewhere the gap of the pooled training rows,
    without a limit and a multiplier.
    """
    pairs, schema = prepared.constraints, prepared.schema
    names = [spelled(group, one) for one in schema.groups]
    columns: dict[str, Any] = {
        "pair": [pair_name(k, names, schema.classes) for k in pairs],
        "class": [_class(k, prepared, classes) for k in pairs],
    }
    if METHODS[method].limits != "loss":
        # None, where a group has no row of the class, becomes NaN.
        columns["D"] = np.array([loss_gap(tally, pair) for pair in pairs], np.float64)
        return pd.DataFrame({**columns, "epsilon": np.nan, "multiplier": np.nan})
    if problem.estimator == "local":
        clients = prepared.client_names
        columns = {name: values * len(clients) for name, values in columns.items()}
        columns = {"client": np.repeat(clients, len(pairs)), **columns}
    last = trained.outcome.last
    columns["D"] = np.asarray(last.d, np.float64)
    limit = problem.epsilon if trained.epsilon is None else trained.epsilon
    repeated = np.resize(np.broadcast_to(limit, len(pairs)), len(columns["D"]))
    return pd.DataFrame(
        {**columns, "epsilon": repeated, "multiplier": np.asarray(last.mu, np.float64)}
    )


def _class(constraint: Constraint, prepared: Prepared, classes: Sequence[Any]) -> Any:
    """The class whose rows count, as the user has it; for several, in words."""
    schema = prepared.schema
    name = class_name(constraint, schema.groups, schema.classes)
    return classes[schema.classes.index(name)] if name in schema.classes else name
