"""A training run under differential privacy: nothing is said of the training rows but what was
released with noise, and the ledger says at what price."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data import DATASETS
from fairsilo.dp import Budget, Ledger, Mechanism
from fairsilo.dp.budget import accountant
from fairsilo.engine import Private
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.metrics import finite, largest
from fairsilo.fairness import Constraint
from fairsilo.fairness.words import sides_of
from fairsilo.method import METHODS
from fairsilo.method.fedavg import unconstrained
from fairsilo.question import Outcomes, Problem
from fairsilo.question.cells import reach
from fairsilo.run.again import noted
from fairsilo.run.crossing import named
from fairsilo.run.decide import cut_of, decided
from fairsilo.run.endings import ending
from fairsilo.run.measure import Metrics, Training, measure, seen_here
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import Posed, plan
from fairsilo.run.settle import settle
from fairsilo.run.tallies import test_evidence
from fairsilo.run.terms import terms_of
from fairsilo.run.train import Run
from fairsilo.solver import Outcome, Status, Watch

SEVERAL = (2, 5, 10)
"""For how many rows of one person the epsilon is told beside that of one."""


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


def mechanism_of(options: Options) -> Mechanism:
    """The clients' noise and their ledgers; how many clients there are is known later."""
    assert options.dp_epsilon is not None
    accountant()  # whether it is installed is said before the work, not after it
    return Mechanism(Ledger(Budget(options.dp_epsilon, options.dp_delta)), 1, 1)


def begin(
    options: Options, prepared: Prepared, mechanism: Mechanism
) -> tuple[Problem, Prepared, Private]:
    """Release the counts; the problem with its penalty, its rows with the pairs that are named."""
    if isinstance(pairs := options.crossed, tuple):
        prepared = prepared.crossed(named(pairs, prepared))
    engine = prepared.engine(options, mechanism)
    assert isinstance(engine, Private)
    problem = plan(options, prepared)
    assert problem.promise is not None
    if METHODS[options.method].limited:
        noise = engine.deviation(1.0, problem.promise.plan.counts)
        check_counts(prepared, engine.counts(problem), noise)
    return settle(options, prepared, problem, engine).problem, prepared, engine


def execute_private(options: Options, watch: Watch | None = None) -> Run:
    """Release the encoder's sums and the counts, train, release what the model does."""
    if options.schema is None and options.data not in DATASETS:
        raise FairSiloError(
            "with `dp_epsilon` the columns' vocabularies and bounds must not be read off the rows: "
            "declare them in a file and give it as `schema`"
        )
    mechanism = mechanism_of(options)
    prepared = prepare(options, mechanism)
    started = time.perf_counter()
    problem, prepared, engine = begin(options, prepared, mechanism)
    trained = noted(options, METHODS[options.method](problem, engine, watch))
    trained = decided(options.decide_at, problem, trained, engine)
    theta = trained.outcome.theta
    released = released_by(engine, problem, engine.ask(problem, Outcomes(theta, cut_of(trained))))
    seconds = time.perf_counter() - started
    test = test_evidence(prepared, trained.predictors[0], options.seed).tally
    solved = engine.under_noise(without(options, problem))
    training = released_training(released, prepared, trained.outcome, solved.solver.tolerance, test)
    seen = seen_here(options, prepared, problem, trained, training)
    seen.sent["bytes_up"] = 8 * mechanism.numbers * prepared.federation.clients
    metrics = measure(options, prepared, problem, trained, seen, seconds)
    metrics["dp"] = spent(mechanism.ledger, options.dp_noise, mechanism.smallest)
    terms = terms_of(prepared.encoder, trained, None, None, 1.0)
    return Run(options, prepared, prepared.client_names, trained, metrics, terms)


def without(options: Options, problem: Problem) -> Problem:
    """The problem as the method solves it: without constraints, where it has none."""
    return problem if METHODS[options.method].limited else unconstrained(problem)


def released_by(engine: Any, problem: Problem, outcomes: tuple[Floats, Floats] | None) -> Released:
    """What is known in the end; None: there was no budget left for the outcomes."""
    assert problem.promise is not None
    plan, clip = problem.promise.plan, problem.promise.clip
    nothing = np.full(problem.shape, np.nan)
    losses, right = (nothing, nothing) if outcomes is None else outcomes
    noise = engine.deviation(reach(clip), plan.final)
    return Released(engine.counts(problem), losses, right, noise)


def check_counts(posed: Posed, counts: Floats, noise: float) -> None:
    """Refuse a constraint whose groups the noise drowns."""
    schema = posed.schema
    for one in posed.constraints:
        sides = [side for side in one.sides(*counts.shape) if side.any()]
        a, b, classes = sides_of(one, schema.groups, schema.classes)
        for side, names in zip(sides, (a, b), strict=False):
            if counts[side].sum() < 4 * noise * np.sqrt(side.sum()):
                raise FairSiloError(
                    f"group {' or '.join(map(repr, names))} has too few training rows of class "
                    f"{' or '.join(map(repr, classes))} to be told from the noise: raise "
                    "`dp_epsilon`, give more rows, or choose other `groups`"
                )


def released_training(
    released: Released, posed: Posed, outcome: Outcome, tolerance: float, test: Tally
) -> Training:
    """What is said of the training rows; whether the model collapsed is seen on the test rows."""
    plain = ending(outcome, tolerance, test, posed.schema.classes, "test")
    return Training(
        figures=_figures(released, posed.constraints),
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


def _figures(released: Released, constraints: Sequence[Constraint]) -> Metrics:
    """`train` of metrics.json from released sums, and how far the noise alone moves DGEO."""
    counts, losses = released.counts, released.losses
    rows = counts.sum()
    gaps: list[float | None] = []
    spreads = [0.0]
    for one in constraints:
        sides = [side for side in one.sides(*counts.shape) if side.any()]
        means = [losses[side].sum() / counts[side].sum() for side in sides]
        parts = [np.sqrt(side.sum()) / counts[side].sum() for side in sides]
        gaps.append(finite(means[0] - sum(means[1:])))
        spreads.append(float(released.noise * np.hypot(*(*parts, 0.0)[:2])))
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
        "epsilon_of_rows": {str(k): ledger.epsilon_of_rows(k) for k in SEVERAL},
        "releases": len(ledger.releases),
        "ledger": [
            {"release": name, "times": counts[name], "noise_multiplier": multipliers[name]}
            for name in counts
        ],
        "noise": noise,
        "smallest_sum": smallest,
    }
