"""A training run under differential privacy: nothing is said of the training rows but what was
released with noise, and the ledger says at what price."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.data import DATASETS, Encoder, Schema
from fairsilo.data.bounded import bounds_of, encoder_message, encoder_of_sums, sensitivity
from fairsilo.dp import Budget, Clip, Ledger, Mechanism, Plan, Split, smallest_sum
from fairsilo.engine import Outcome, Watch, noisy_counts, noisy_outcomes
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import finite, largest
from fairsilo.fairness import Dgeo
from fairsilo.method.private import Guarded, train_private
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.train import Metrics, Run, Training, ending, measure, plan, test_evidence
from fairsilo.solver import Status

Floats = npt.NDArray[np.float64]
ROUNDS = {"newton": 6, "agp": 1000}
"""Rounds under differential privacy, unless --rounds says otherwise: every one costs noise."""


@dataclass(frozen=True, eq=False)
class Released:
    """What is known of the training rows in the end: noisy sums of every (group, class) cell.

    Losses and right answers are NaN where there was no budget left to release them.
    """

    counts: Floats
    losses: Floats
    right: Floats
    noise: float
    """The standard deviation of the noise in a cell's losses."""


def execute_private(options: Options, watch: Watch | None = None) -> Run:
    """Release the encoder's sums and the counts, train, release what the model does."""
    if options.schema is None and options.data not in DATASETS:
        raise FairSiloError(
            "with --dp-epsilon the columns' vocabularies and bounds must not be read off the rows: "
            "declare them in a file and give it as --schema"
        )
    solver = options.solver or ("newton" if options.model == "lr" else "agp")
    rounds = options.rounds or ROUNDS[solver]
    options = replace(options, solver=solver, rounds=rounds)
    split, clip = Split(*options.dp_split), Clip(options.dp_clip)
    assert options.dp_epsilon is not None
    budget = Budget(options.dp_epsilon, options.dp_delta)
    parts = Plan.of(budget, split, rounds, curvature=solver == "newton")
    mechanism = Mechanism(Ledger(budget), 1, 1)
    whole = options.engine == "pooled"

    def fit(tables: list[pd.DataFrame], schema: Schema) -> Encoder:
        bounds_of(schema)
        mechanism.silos = len(tables)
        mechanism.smallest = smallest_sum(len(tables)) if options.dp_noise == "shared" else 1
        total = mechanism.release([encoder_message(table, schema, parts) for table in tables])
        noise = mechanism.deviation(sensitivity(schema), parts.encoder)
        return encoder_of_sums(schema, total, noise)

    prepared = prepare(options, fit)
    started = time.perf_counter()
    task = plan(options, prepared)
    if options.method == "fedavg":
        task = replace(task, constraints=())
    counts = noisy_counts(prepared.federation, mechanism, parts, whole)
    if options.method == "fedfair":
        noise = mechanism.deviation(1.0, parts.counts)
        check_counts(prepared.schema, prepared.cell_pairs, counts, noise)
    task, trained = train_private(task, Guarded(mechanism, parts, clip, counts), watch)
    losses, right = noisy_outcomes(
        task.model, task.federation, trained.outcome.theta, mechanism, parts, clip, whole
    )
    seconds = time.perf_counter() - started
    released = Released(
        counts, losses, right, mechanism.deviation(clip.loss * np.sqrt(2), parts.final)
    )
    test = test_evidence(prepared, trained.predictors[0], options.seed).tally
    training = released_training(
        released, prepared.cell_pairs, trained.outcome, task.solver.tolerance, test, prepared.schema
    )
    metrics = measure(options, prepared, task, trained, seconds, training)
    metrics["bytes_up"] = 8 * mechanism.numbers * prepared.federation.clients
    metrics["dp"] = spent(mechanism.ledger, options.dp_noise, mechanism.smallest)
    return Run(options, prepared, trained, metrics)


def check_counts(schema: Schema, pairs: Sequence[Dgeo], counts: Floats, noise: float) -> None:
    """Refuse a constraint whose groups the noise drowns."""
    for pair in pairs:
        for g in (pair.a, pair.b):
            if counts[g, pair.c] < 4 * noise:
                raise FairSiloError(
                    f"group {schema.groups[g]!r} has too few training rows of class "
                    f"{schema.classes[pair.c]!r} to be told from the noise: raise "
                    "--dp-epsilon, give more rows, or choose other --groups"
                )


def released_training(
    released: Released,
    pairs: Sequence[Dgeo],
    outcome: Outcome,
    tolerance: float,
    test: Tally,
    schema: Schema,
) -> Training:
    """What is said of the training rows; whether the model collapsed is seen on the test rows."""
    plain = ending(outcome, tolerance, test, schema.classes, "test")
    return Training(
        figures=_figures(released, pairs),
        by_client=[],
        reason=_ending(outcome, plain),
        common=int(np.argmax(released.counts.sum(axis=0))),
    )


def _ending(outcome: Outcome, plain: str) -> str:
    """Why training ended: to make the rounds that the budget was planned for is no failure."""
    if outcome.status is not Status.RUNNING:
        return plain
    collapsed = plain.rpartition("; ")[0]
    last = outcome.last
    planned = (
        f"ended after the {outcome.rounds} rounds that the privacy budget was planned for: KKT "
        f"residual {float(last.residual):.1e}, violation {float(last.violation):.1e}, noise "
        "included"
    )
    return f"{collapsed}; {planned}" if collapsed else planned


def _figures(released: Released, pairs: Sequence[Dgeo]) -> Metrics:
    """`train` of metrics.json from released sums, and how far the noise alone moves DGEO."""
    counts, losses = released.counts, released.losses
    rows = counts.sum()
    gaps: list[float | None] = []
    spreads = [0.0]
    for pair in pairs:
        sizes = [counts[g, pair.c] for g in (pair.a, pair.b)]
        gaps.append(finite(losses[pair.a, pair.c] / sizes[0] - losses[pair.b, pair.c] / sizes[1]))
        spreads.append(float(released.noise * np.hypot(1 / sizes[0], 1 / sizes[1])))
    return {
        "rows": round(float(rows)),
        "loss": finite(losses.sum() / rows),
        "accuracy": finite(np.clip(released.right.sum() / rows, 0, 1)),
        "dgeo_mean": None,
        "dgeo_pooled": largest(gaps),
        "dgeo_noise": max(spreads),
    }


def spent(ledger: Ledger, noise: str, smallest: int) -> dict[str, Any]:
    """`dp` of metrics.json: the budget, what was spent of it and on what."""
    counts = Counter(release.name for release in ledger.releases)
    multipliers = {release.name: release.multiplier for release in ledger.releases}
    return {
        "epsilon": ledger.budget.epsilon,
        "delta": ledger.budget.delta,
        "epsilon_spent": ledger.epsilon,
        "releases": len(ledger.releases),
        "ledger": [
            {"release": name, "times": counts[name], "noise_multiplier": multipliers[name]}
            for name in counts
        ],
        "noise": noise,
        "smallest_sum": smallest,
    }
