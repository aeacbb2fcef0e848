"""A training run under differential privacy: nothing is said of the training rows but what was
released with noise, and the ledger says at what price."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.data import DATASETS, Encoder, Schema
from fairsilo.data.bounded import bounded_sums, bounds_of, encoder_of_sums, sensitivity
from fairsilo.dp import Budget, Clip, Ledger, Mechanism, Plan, Split, smallest_sum
from fairsilo.engine import Outcome, Watch, noisy_counts, noisy_outcomes
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.metrics import largest
from fairsilo.method.private import Guarded, train_private
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.train import Metrics, Run, Training, ending, measure, plan, test_evidence
from fairsilo.solver import Status

Floats = npt.NDArray[np.float64]
ROUNDS = {"newton": 6, "agp": 1000}
"""Rounds under differential privacy, unless --rounds says otherwise: every one costs noise."""


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
        reach = sensitivity(schema)
        sums = [bounded_sums(table, schema) for table in tables]
        total = mechanism.release("encoder", sums, reach, parts.encoder)
        return encoder_of_sums(schema, total, mechanism.deviation(reach, parts.encoder))

    prepared = prepare(options, fit)
    started = time.perf_counter()
    task = plan(options, prepared)
    if options.method == "fedavg":
        task = replace(task, constraints=())
    counts = noisy_counts(prepared.federation, mechanism, parts, whole)
    _check_counts(prepared, counts, mechanism.deviation(1.0, parts.counts), options)
    task, trained = train_private(task, Guarded(mechanism, parts, clip, counts), watch)
    losses, right = noisy_outcomes(
        task.model, task.federation, trained.outcome.theta, mechanism, parts, clip, whole
    )
    seconds = time.perf_counter() - started
    noise = mechanism.deviation(clip.loss * np.sqrt(2), parts.final)
    test = test_evidence(prepared, trained.predictors[0], options.seed).tally
    classes, tolerance = prepared.schema.classes, task.solver.tolerance
    training = Training(
        figures=_figures(prepared, counts, losses, right, noise),
        by_client=[],
        reason=_ending(trained.outcome, ending(trained.outcome, tolerance, test, classes, "test")),
        common=int(np.argmax(counts.sum(axis=0))),
    )
    metrics = measure(options, prepared, task, trained, seconds, training)
    metrics["bytes_up"] = 8 * mechanism.numbers * prepared.federation.clients
    metrics["dp"] = spent(mechanism, options)
    return Run(options, prepared, trained, metrics)


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


def _check_counts(prepared: Prepared, counts: Floats, noise: float, options: Options) -> None:
    """Refuse a constraint whose groups the noise drowns."""
    for pair in prepared.cell_pairs if options.method == "fedfair" else ():
        for g in (pair.a, pair.b):
            if counts[g, pair.c] < 4 * noise:
                raise FairSiloError(
                    f"group {prepared.schema.groups[g]!r} has too few training rows of class "
                    f"{prepared.schema.classes[pair.c]!r} to be told from the noise: raise "
                    "--dp-epsilon, give more rows, or choose other --groups"
                )


def _figures(
    prepared: Prepared, counts: Floats, losses: Floats, right: Floats, noise: float
) -> Metrics:
    """`train` of metrics.json from released sums, and how far the noise alone moves DGEO."""
    rows = counts.sum()
    gaps: list[float | None] = []
    spreads = [0.0]
    for pair in prepared.cell_pairs:
        sizes = [counts[g, pair.c] for g in (pair.a, pair.b)]
        gaps.append(float(losses[pair.a, pair.c] / sizes[0] - losses[pair.b, pair.c] / sizes[1]))
        spreads.append(float(noise * np.hypot(1 / sizes[0], 1 / sizes[1])))
    return {
        "rows": round(float(rows)),
        "loss": float(losses.sum() / rows),
        "accuracy": float(np.clip(right.sum() / rows, 0, 1)),
        "dgeo_mean": None,
        "dgeo_pooled": largest(gaps),
        "dgeo_noise": max(spreads),
    }


def spent(mechanism: Mechanism, options: Options) -> dict[str, Any]:
    """`dp` of metrics.json: the budget, what was spent of it and on what."""
    ledger = mechanism.ledger
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
        "noise": options.dp_noise,
        "smallest_sum": mechanism.smallest,
    }
