"""ST, separate training: every silo solves the constrained problem alone on its own rows.

    for each i:  min_theta L_i(theta)   s.t.  |D_i(theta)| <= epsilon

N models. Where all rows are in one process, the N solves are the runs of one batched program.
Elsewhere each silo keeps its model and tells only how its training ended (`Separate`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats, leafwise
from fairsilo.engine import Engine, Pooled, federation_of, solve_many
from fairsilo.engine.pooled import Limit
from fairsilo.fairness.constraint import Totals, count_cells
from fairsilo.method.base import Method, Trained
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Plain
from fairsilo.question.base import Problem, Question, Silo
from fairsilo.question.plausible import NOTHING, ROUNDING, Known, whole_counts
from fairsilo.solver import Outcome, Record, Status, Watch

WASTE = 4
"""How many times the rows all clients' filled tables may have before they are split by size."""
WORST_FIRST = (Status.DIVERGED, Status.STALLED, Status.RUNNING, Status.CONVERGED)


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """One model per silo, each trained on that silo's rows under its own constraint.

    A silo with one class only has its optimum at infinity: the damped solver stops there when
    the gradient is below its tolerance. `watch` sees the first silo.
    """
    if isinstance(engine, Pooled):
        trained = train_many([problem], [engine], [problem.epsilon], watch)[0][0]
        for silo, model in zip(engine.silos, trained.predictors, strict=True):
            silo.own = model
        return trained
    told: Told = engine.ask(problem, Separate())
    return Trained(engine.own(), told.outcome, 0, 0, told.notes)


def train_many(
    problems: Sequence[Problem],
    engines: Sequence[Pooled],
    epsilons: Sequence[Limit],
    watch: Watch | None = None,
    thin: bool = False,
) -> list[list[Trained]]:
    """Every problem with every epsilon: all silos of all problems in one program.

    Each silo is a federation of its own, whose `mean` is over that silo: with an empty cell over
    nobody, so that the silo has no such constraint.
    """
    solved: dict[tuple[int, int], list[Outcome]] = {}
    tables = [engine.federation for engine in engines]
    groups = [batches(table) for table in tables]
    together = all(other == groups[0] for other in groups)
    for group in [range(len(tables))] if together else [[t] for t in range(len(tables))]:
        for clients in groups[group[0]]:
            silos = [(t, client) for t in group for client in clients]
            alone = [replace(problems[t], estimator="mean", rest=False) for t, _ in silos]
            each = [Pooled(tables[t].only(client)) for t, client in silos]
            outcomes = solve_many(alone, each, epsilons, watch, thin)
            solved.update(zip(silos, outcomes, strict=True))
    return [
        [
            _trained(problem, table, [solved[t, client][e] for client in range(table.clients)])
            for e in range(len(epsilons))
        ]
        for t, (problem, table) in enumerate(zip(problems, tables, strict=True))
    ]


def batches(federation: Federation) -> list[list[int]]:
    """Which clients share a program: all of them, or those within a factor of two in size.

    Shorter tables are filled up with rows of weight zero, and most of the rows must not be filling.
    """
    sizes = np.diff(federation.offsets)
    if sizes.max() * len(sizes) <= WASTE * federation.rows:
        return [list(range(len(sizes)))]
    magnitude = [int(size).bit_length() for size in sizes]
    return [
        [i for i, bits in enumerate(magnitude) if bits == wanted]
        for wanted in sorted(set(magnitude))
    ]


def _trained(problem: Problem, table: Federation, outcomes: Sequence[Outcome]) -> Trained:
    predictors = tuple(Plain(problem.model, outcome.theta) for outcome in outcomes)
    each = zip(table.parts(), outcomes, strict=True)
    told = np.sum([_told(problem, part, outcome) for part, outcome in each], axis=0)
    return Trained(predictors, summarise(outcomes), 0, 0, notes_of(told))


def summarise(outcomes: Sequence[Outcome]) -> Outcome:
    """N solves as one: the most rounds, the worst status, theta as (N, p).

    The history has the mean over clients of loss, D and mu, and the largest step, residual and
    violation, so that its last row says what the status says. A client that is done keeps its
    last values.
    """
    rounds = max(outcome.rounds for outcome in outcomes)

    def line_up(*leaves: np.ndarray) -> np.ndarray:
        longest = max(map(len, leaves))  # fewer than the rounds where histories are thin
        missing = [(0, longest - len(leaf)) for leaf in leaves]
        return np.stack(
            [
                np.pad(leaf, [fill] + [(0, 0)] * (leaf.ndim - 1), mode="edge")
                for leaf, fill in zip(leaves, missing, strict=True)
            ]
        )

    every: Record = leafwise(line_up, *(outcome.history for outcome in outcomes))
    history = Record(
        loss=every.loss.mean(0),
        d=every.d.mean(0),
        mu=every.mu.mean(0),
        step=every.step.max(0),
        residual=every.residual.max(0),
        violation=every.violation.max(0),
    )
    statuses = {outcome.status for outcome in outcomes}
    worst = next(status for status in WORST_FIRST if status in statuses)
    return Outcome(np.stack([outcome.theta for outcome in outcomes]), worst, rounds, history)


FLAGS = (
    "have no row in one of the constrained cells and train without that constraint",
    "have rows of one class only, for which the best model answers that class always",
    "did not converge",
)
"""What is counted of the silos: a one for each that applies."""


def _told(problem: Problem, rows: Federation, outcome: Outcome) -> Floats:
    """What one silo tells: 1, the flags, whether it diverged, rounds, and its last record."""
    cells = count_cells(rows.y, rows.s, rows.groups, rows.classes)
    last = outcome.last
    flags = [
        not Totals.of_silo(cells, problem.constraints).taking_part.all(),
        np.count_nonzero(cells.sum(axis=0)) == 1,
        outcome.status is not Status.CONVERGED,
        outcome.status is Status.DIVERGED,
    ]
    ends = [outcome.rounds, last.loss, last.residual, last.violation]
    numbers = [1, *flags, *ends, *np.atleast_1d(last.d), *np.atleast_1d(last.mu)]
    return np.array([float(one) for one in numbers])


def notes_of(told: Floats) -> tuple[str, ...]:
    """How many silos had no constraint, one class only, or did not converge."""
    counts = zip(told[1:], FLAGS, strict=False)
    return tuple(f"{round(n)} of {round(told[0])} clients {what}" for n, what in counts if n > 0.5)


@dataclass(frozen=True)
class Told:
    """How the silos' trainings ended, on average."""

    outcome: Outcome
    notes: tuple[str, ...]


class Separate(Question, kind="separate"):
    """Train alone, keep the model, tell how it ended."""

    def length(self, problem: Problem) -> int:
        """One, four flags, four figures, and gap and multiplier of every constraint."""
        return 9 + 2 * len(problem.constraints)

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """The silo's model stays in the silo."""
        rows = federation_of([silo], replace(problem, rest=False))
        alone = replace(problem, estimator="local", rest=False)
        outcome = Pooled(rows).solve(alone)
        silo.own = Plain(problem.model, outcome.theta)
        return _told(problem, rows, outcome)

    def read(self, problem: Problem, vector: Floats) -> Told:
        """Means over the silos; converged where all of them are."""
        silos, pairs = vector[0], len(problem.constraints)
        rounds, loss, residual, violation, *rest = vector[5:] / silos
        values = (loss, rest[:pairs], rest[pairs:], 0.0, residual, violation)
        history = Record(*(np.asarray([value]) for value in values))
        ended = Status.RUNNING if vector[3] > 0.5 else Status.CONVERGED
        status = Status.DIVERGED if vector[4] > 0.5 else ended
        return Told(Outcome(np.zeros(0), status, max(round(rounds), 1), history), notes_of(vector))

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Every silo counts itself once; losses, residuals and violations are not negative."""
        if (vector[1:5] > vector[0] + 0.5).any() or vector[0] > (known.silos or np.inf) + 0.5:
            return "there are more silos than were asked"
        if (vector[6:9] < -ROUNDING).any():
            return "a mean loss, a residual or a violation is negative"
        return whole_counts(vector[:6])


st = Method(
    name="st",
    title="ST",
    words="Separate training: every client trains alone on its own rows, under its own limit",
    train=train,
    asks=("separate",),
    penalised=False,
    limits="loss",
    own_models=True,
    weighted=True,
)
