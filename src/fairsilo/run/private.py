"""A training run under differential privacy: nothing is said of the training rows but what was
released with noise, and the ledger says at what price."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data import DATASETS, Encoder, Schema
from fairsilo.data.bounded import bounds_of, encoder_message, encoder_of_sums, sensitivity
from fairsilo.dp import Budget, Clip, Ledger, Mechanism, Plan, Split, smallest_sum
from fairsilo.engine import Outcome, Watch, noisy_counts, noisy_outcomes
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import finite, largest
from fairsilo.fairness import Dgeo
from fairsilo.method import Task, Trained
from fairsilo.method.private import Guarded, train_private
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.train import Metrics, Run, Training, ending, measure, plan, test_evidence
from fairsilo.solver import Status

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


@dataclass(frozen=True, eq=False)
class Privately:
    """A training under differential privacy: its options, the clients' noise, its plan."""

    options: Options
    mechanism: Mechanism
    plan: Plan
    clip: Clip

    @classmethod
    def of(cls, options: Options) -> Self:
        """Fill in solver and rounds, which the plan needs; nothing is released yet."""
        solver = options.solver or ("newton" if options.model == "lr" else "agp")
        rounds = options.rounds or ROUNDS[solver]
        assert options.dp_epsilon is not None
        budget, split = Budget(options.dp_epsilon, options.dp_delta), Split(*options.dp_split)
        return cls(
            replace(options, solver=solver, rounds=rounds),
            Mechanism(Ledger(budget), 1, 1),
            Plan.of(budget, split, rounds, curvature=solver == "newton"),
            Clip(options.dp_clip),
        )

    @property
    def whole(self) -> bool:
        """Whether the rows of all clients are summed in one go."""
        return self.options.engine == "pooled"

    def fit(self, tables: list[pd.DataFrame], schema: Schema) -> Encoder:
        """The encoder, from a release of the clients' bounded sums."""
        bounds_of(schema)
        shared, clients = self.options.dp_noise == "shared", len(tables)
        self.mechanism.silos = clients
        self.mechanism.smallest = smallest_sum(clients) if shared else 1
        own = [encoder_message(table, schema, self.plan) for table in tables]
        noise = self.mechanism.deviation(sensitivity(schema), self.plan.encoder)
        return encoder_of_sums(schema, self.mechanism.release(own), noise)

    def train(self, prepared: Prepared, watch: Watch | None = None) -> tuple[Task, Trained, Floats]:
        """Release the counts, then train: the task as it was done, the model, the noisy counts."""
        task = plan(self.options, prepared)
        if self.options.method == "fedavg":
            task = replace(task, constraints=())
        counts = noisy_counts(prepared.federation, self.mechanism, self.plan, self.whole)
        if self.options.method == "fedfair":
            noise = self.mechanism.deviation(1.0, self.plan.counts)
            check_counts(prepared.schema, prepared.cell_pairs, counts, noise)
        guard = Guarded(self.mechanism, self.plan, self.clip, counts)
        return (*train_private(task, guard, watch), counts)


def execute_private(options: Options, watch: Watch | None = None) -> Run:
    """Release the encoder's sums and the counts, train, release what the model does."""
    if options.schema is None and options.data not in DATASETS:
        raise FairSiloError(
            "with --dp-epsilon the columns' vocabularies and bounds must not be read off the rows: "
            "declare them in a file and give it as --schema"
        )
    private = Privately.of(options)
    options, mechanism, parts, clip = private.options, private.mechanism, private.plan, private.clip
    prepared = prepare(options, private.fit)
    started = time.perf_counter()
    task, trained, counts = private.train(prepared, watch)
    losses, right = noisy_outcomes(
        task.model, task.federation, trained.outcome.theta, mechanism, parts, clip, private.whole
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
        reason=private_ending(outcome, plain),
        common=int(np.argmax(released.counts.sum(axis=0))),
    )


def private_ending(outcome: Outcome, plain: str) -> str:
    """Why training ended: to make the rounds that the budget was planned for is no failure."""
    if outcome.status is not Status.RUNNING:
        return plain
    collapsed = plain.rpartition("; ")[0]
    last = outcome.last
    planned = (
        f"ended after the {outcome.rounds} rounds that the privacy budget pays for: KKT "
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
