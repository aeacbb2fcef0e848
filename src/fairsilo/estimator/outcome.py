"""The results of a fit: a table of the rounds, one of the constraints, the reason it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import loss_gap
from fairsilo.fairness import Constraint
from fairsilo.fairness.words import class_name, pair_name
from fairsilo.method import Task, Trained
from fairsilo.method.committee import Committee
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.private import Privately, private_ending, spent
from fairsilo.run.store import history
from fairsilo.run.train import LIMITS_LOSS, Run, ending, explain, plan, tally_of
from fairsilo.run.train import train as train_by
from fairsilo.solver import Status


@dataclass(frozen=True)
class Fitted:
    """A finished training, as the estimator's attributes show it."""

    trained: Trained
    history: pd.DataFrame
    constraints: pd.DataFrame
    rounds: int
    converged: bool
    reason: str
    dp: dict[str, Any] | None = None
    """What a private fit spent, like `dp` in metrics.json."""


def train(options: Options, prepared: Prepared, classes: Sequence[Any]) -> Fitted:
    """Train by the method in the options and collect the results."""
    task = plan(options, prepared)
    trained = train_by(options, task)
    federation = prepared.federation
    committee = Committee(trained.predictors, len(classes))
    tally = tally_of(committee, federation.x, federation.y, federation.s, prepared, options.seed)
    return Fitted(
        trained=trained,
        history=_history(options, prepared, trained),
        constraints=_constraints(prepared, classes, task, trained, tally, options.method),
        rounds=trained.outcome.rounds,
        converged=trained.outcome.status is Status.CONVERGED,
        reason=explain(task, trained, tally, prepared),
    )


def train_privately(private: Privately, prepared: Prepared, classes: Sequence[Any]) -> Fitted:
    """`train` under differential privacy: all figures of training rows are released sums."""
    task, trained, _ = private.train(prepared)
    shape = len(prepared.schema.groups), len(classes)
    unseen = Tally(np.zeros((*shape, len(classes)), np.int64), np.zeros(shape), np.zeros(shape))
    outcome, options = trained.outcome, private.options
    plain = ending(outcome, task.solver.tolerance, unseen, prepared.schema.classes)
    return Fitted(
        trained=trained,
        history=_history(options, prepared, trained),
        constraints=_constraints(prepared, classes, task, trained, unseen, options.method),
        rounds=outcome.rounds,
        converged=outcome.status is Status.CONVERGED,
        reason=private_ending(outcome, plain),
        dp=spent(private.mechanism.ledger, options.dp_noise, private.mechanism.smallest),
    )


def _history(options: Options, prepared: Prepared, trained: Trained) -> pd.DataFrame:
    """The run folder's table without the columns of bytes: one process sends nothing."""
    sent = {"bytes_up": 0, "bytes_down": 0}
    return history(Run(options, prepared, trained, sent)).drop(columns=list(sent))


def _constraints(
    prepared: Prepared,
    classes: Sequence[Any],
    task: Task,
    trained: Trained,
    tally: Tally,
    method: str,
) -> pd.DataFrame:
    """One row per pair and class, and under `lco` per client.

    D is the solver's if the method limits it, else the gap of the pooled training rows, without
    limit and multiplier.
    """
    pairs, schema = prepared.constraints, prepared.schema
    columns: dict[str, Any] = {
        "pair": [pair_name(k, schema.groups, schema.classes) for k in pairs],
        "class": [_class(k, prepared, classes) for k in pairs],
    }
    if method not in LIMITS_LOSS:
        # None (a group has no row of the class) becomes NaN.
        columns["D"] = np.array([loss_gap(tally, pair) for pair in pairs], np.float64)
        return pd.DataFrame({**columns, "epsilon": np.nan, "multiplier": np.nan})
    if method == "lco":
        clients = prepared.client_names
        columns = {name: values * len(clients) for name, values in columns.items()}
        columns = {"client": np.repeat(clients, len(pairs)), **columns}
    last = trained.outcome.last
    columns["D"] = np.asarray(last.d, np.float64)
    limit = task.epsilon if trained.epsilon is None else trained.epsilon
    repeated = np.resize(np.broadcast_to(limit, len(pairs)), len(columns["D"]))
    return pd.DataFrame(
        {**columns, "epsilon": repeated, "multiplier": np.asarray(last.mu, np.float64)}
    )


def _class(constraint: Constraint, prepared: Prepared, classes: Sequence[Any]) -> Any:
    """The class whose rows are compared, as the user's value; several classes in words."""
    schema = prepared.schema
    name = class_name(constraint, schema.groups, schema.classes)
    return classes[schema.classes.index(name)] if name in schema.classes else name
