"""From options and a schema to what is trained, by asking silos: the only way to prepare.

A simulation asks silos in this process, a network run asks silos far away; both get the same
encoder, groups and constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data import Encoder, Schema, pool
from fairsilo.data.binned import MOST_PARAMETERS, Binned, Histograms
from fairsilo.data.bounded import (
    bounds_of,
    encoder_in_steps,
    encoder_of_sums,
    histogram_sensitivity,
    sensitivity,
)
from fairsilo.data.encoder import Scaling
from fairsilo.data.groups import pooled_index
from fairsilo.data.steps import Steps, first_grid, second_grid
from fairsilo.data.weights import class_weights
from fairsilo.dp import Budget, Clip, Plan, Split
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.certificate import Names
from fairsilo.fairness import Constraint, Dgeo, Totals, check_defined
from fairsilo.fairness.words import describe
from fairsilo.method import METHODS
from fairsilo.model import MODELS
from fairsilo.question import (
    Columns,
    Counts,
    Histogram,
    NoisyColumns,
    NoisyHistogram,
    Problem,
)
from fairsilo.question.base import Promise
from fairsilo.run.constraints import Compared, compare, groups_of
from fairsilo.run.counted import curvature_of
from fairsilo.run.local_options import SOLVER, work_of
from fairsilo.run.options import Options
from fairsilo.solver import SOLVERS, Newton, Solver

ROUNDS = {"newton": 150, "lbfgs": 300, "agp": 20_000}
"""The most rounds a solver gets unless the options say otherwise."""
WITH_PENALTIES = 1e-11
"""Newton's ridge where the parameters are penalised, a share of the largest eigenvalue: that of a
curve which AIC makes straight is 1e4 times the loss's."""
PRIVATE_ROUNDS = {"newton": 6, "agp": 1000}
"""Rounds under differential privacy, where every one costs noise."""
PRIVATE_ROUNDS_OF_STEPS = 15
"""Newton's of a model with steps, whose curvature is known roughly: chosen, as all settings of
private steps, on validation rows of ADULT."""
LOCAL_ROUNDS = 200
"""Rounds with local epochs, which do the work of many."""
LARGEST_MATRIX = {"lr": 2_000, "mlp": 400, "additive": MOST_PARAMETERS}
"""Models with more parameters train by L-BFGS: the rounds that a (p, p) matrix saves no longer
pay for computing and sending it (ADULT's network, p = 881: 13 s by L-BFGS, minutes by Newton)."""
SMALLEST = 100
"""Of intersections, groups with fewer rows in a protected class are pooled unless the options say
otherwise: the rate of 100 rows is known to within ten points."""
SETUP_EXCHANGES = 2
"""Before the first round the silos send the encoder's sums, then the counts of their cells."""
HISTOGRAMS = 2
"""More of them before a model with steps."""


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A training before any row is weighed: how tables are read, and what is constrained."""

    schema: Schema
    encoder: Encoder
    constraints: tuple[Constraint, ...]
    protected_class: str
    groups: tuple[str, ...]
    """The groups that are compared, in the user's order."""
    group_columns: tuple[int, ...]
    """The encoded columns that give the group away."""
    pairs: tuple[Constraint, ...] = ()
    """What DEO and fairness are measured on; empty where that is what is constrained."""
    epsilon: float | tuple[float, ...] | None = None
    """The limit, or one for each constraint; None is the options' own."""
    rows: tuple[Floats, ...] = ()
    """Where numbers are steps: the training rows in every column of each feature, as counted."""

    @property
    def compared(self) -> tuple[Constraint, ...]:
        """The groups that are compared in the protected classes, whatever is constrained."""
        return self.pairs or self.constraints

    @property
    def compared_classes(self) -> tuple[int, ...]:
        """The protected classes, as indices."""
        shape = len(self.schema.groups), len(self.schema.classes)
        sides = [one for pair in self.compared for one in pair.sides(*shape)]
        return tuple(np.flatnonzero(np.any(sides, axis=(0, 1))).tolist()) if sides else ()

    @property
    def cell_pairs(self) -> tuple[Dgeo, ...]:
        """The constraints between two cells: what certificates are for."""
        return tuple(one for one in self.constraints if isinstance(one, Dgeo))

    @property
    def encoder_width(self) -> int:
        """How many numbers a row is encoded into."""
        return len(self.encoder.feature_names)

    def describe(self, constraint: Constraint) -> str:
        """A constraint in words: "Female - Male in >50K"."""
        return describe(constraint, self.schema.groups, self.schema.classes)

    def spoken(self, constraint: Constraint) -> str:
        """The same as a reader understands it: "female=0 - female=1 in good=1"."""
        schema = self.schema
        names = Names(schema.groups, schema.classes, schema.group, schema.label).spoken
        return describe(constraint, names.groups, names.classes)


def pose(
    options: Options,
    schema: Schema,
    engine: Any,
    *,
    protected: Sequence[int],
    groups: Sequence[str] | None,
    hidden: Iterable[str],
) -> Posed:
    """Pool small groups, choose the constraints, fit the encoder: what silos tell are sums.

    `protected` are classes as indices, none: nothing is compared. `hidden` are the columns that
    name the group. `engine` has the silos' tables.
    """
    smallest = pooled_below(options, schema) if protected else 0
    if smallest:
        cells = engine.ask(unencoded(options, schema), Counts(unweighted=True)).cells
        before, schema = schema, pool(schema, cells[:, list(protected)], smallest)
        engine.regroup(schema, cells, pooled_index(before, schema))
    encoder, rows = fit_encoder(options, schema, engine)
    posed = posed_from(options, schema, encoder, protected=protected, groups=groups, hidden=hidden)
    return replace(posed, rows=rows)


def posed_from(
    options: Options,
    schema: Schema,
    encoder: Encoder,
    *,
    protected: Sequence[int],
    groups: Sequence[str] | None,
    hidden: Iterable[str],
) -> Posed:
    """The constraints on these groups, with an encoder that is fitted already."""
    chosen: tuple[str, ...] = ()
    asked = Compared((), (), options.epsilon)
    if protected:
        chosen = groups_of(schema, groups)
        asked = compare(schema, options, chosen, protected)
    return Posed(
        schema=schema,
        encoder=encoder,
        constraints=asked.constraints,
        protected_class=", ".join(schema.classes[c] for c in protected),
        groups=chosen,
        group_columns=encoded_columns(hidden, encoder),
        pairs=asked.pairs,
        epsilon=asked.epsilon,
    )


def fit_encoder(
    options: Options, schema: Schema, engine: Any
) -> tuple[Encoder, tuple[Floats, ...]]:
    """The encoder, from the silos' sums: exact, or under differential privacy released.

    And the rows in its columns, where numbers are steps.
    """
    problem = unencoded(options, schema)
    if problem.promise is None:
        encoder = Encoder.fit(schema, engine.ask(problem, Columns()))
        return _in_steps(problem, encoder, engine) if problem.model.binned else (encoder, ())
    bounds_of(schema)
    multiplier = problem.promise.plan.encoder
    if problem.model.binned:
        noise = engine.deviation(histogram_sensitivity(schema), multiplier)
        counts = engine.ask(problem, NoisyHistogram())
        return encoder_in_steps(schema, counts, noise, problem.model.outputs)
    noise = engine.deviation(sensitivity(schema), multiplier)
    return encoder_of_sums(schema, engine.ask(problem, NoisyColumns()), noise), ()


def _in_steps(
    problem: Problem, encoder: Encoder, engine: Any
) -> tuple[Encoder, tuple[Floats, ...]]:
    """The encoder with steps, from two grids: one by mean and spread, one by the first's counts."""
    grids = [first_grid(one.mean, one.scale) for one in encoder.scalings]
    for last in (False, True):
        edges = np.concatenate([*grids, np.zeros(0)])
        counts: Histograms = engine.ask(problem, Histogram(edges))
        if last:
            break
        each = zip(grids, counts.numbers, strict=True)
        grids = [second_grid(grid, own) for grid, own in each]
    binned = counts.binned(encoder.schema, problem.model.outputs)
    return replace(encoder, binned=binned), counts.rows(binned, encoder.schema)


def blank_encoder(options: Options, schema: Schema) -> Encoder:
    """An encoder as it may come out, before anything is known of the rows."""
    scalings = (Scaling(0.0, 1.0, True),) * len(schema.numbers)
    if not options.binned:
        return Encoder(schema, scalings)
    categories = len(schema.features) - len(schema.numbers)
    steps = (Steps((), (), True),) * len(schema.numbers)
    return Encoder(schema, scalings, Binned(steps, ((),) * categories))


def unencoded(options: Options, schema: Schema) -> Problem:
    """What is known before there is an encoder: the table, and no inputs of the model."""
    model = MODELS[options.model](0, len(schema.classes))
    return Problem(
        model=model,
        constraints=(),
        epsilon=0.0,
        estimator="pooled",
        solver=solver_of(options, 0),
        rounds=1,
        seed=options.seed,
        groups=len(schema.groups),
        schema=schema,
        promise=promise_of(options, schema),
        weighted=options.weight is not None,
    )


def plan(options: Options, posed: Posed) -> Problem:
    """The problem that the options describe, with the defaults filled in."""
    model = MODELS[options.model](posed.encoder_width, len(posed.schema.classes))
    name = solver_name(options, model.size)
    method = METHODS[options.method]
    if options.start_from is not None:
        from fairsilo.run.again import started

        model = started(model, options, posed)
    if options.target_deo is not None and options.decide_at is not None:
        model = replace(model, cut=float(options.decide_at))
    proxy = options.target_by == "proxy" and not method.decides
    target = options.target_deo if proxy else None
    limit = options.epsilon if posed.epsilon is None else posed.epsilon
    known = options.dp_epsilon is not None and posed.rows
    costs = options.class_weight and class_weights(options.class_weight, posed.schema.classes)
    return Problem(
        model=model,
        constraints=posed.constraints,
        epsilon=limit if target is None else target,
        estimator=method.estimator or options.estimator,  # type: ignore[arg-type]
        solver=solver_of(options, model.size),
        rounds=rounds_of(options, name),
        seed=options.seed,
        groups=len(posed.schema.groups),
        hidden=posed.group_columns,
        schema=posed.schema,
        promise=promise_of(options, posed.schema),
        curvature=curvature_of(posed.encoder, posed.rows, model) if known else None,
        measure="loss" if target is None else "rate",
        target=options.target_deo if method.decides else None,
        work=work_of(options),
        weighted=options.weight is not None,
        class_weight=costs,  # type: ignore[arg-type]
    )


def solver_of(options: Options, parameters: int) -> Solver:
    """The options' own solver, or the one of that name."""
    if not (options.solver is None or isinstance(options.solver, str)):
        return options.solver
    solver = SOLVERS[solver_name(options, parameters)]()
    if isinstance(solver, Newton) and options.binned:
        # Penalties hold what rows do not, and as weakly: a larger ridge would slow the last steps.
        return replace(solver, ridge=WITH_PENALTIES)
    return solver


def solver_name(options: Options, parameters: int) -> str:
    """The solver of the options, or the better one for so many parameters."""
    if METHODS[options.after or options.method].own_solver:
        return "lbfgs"
    if options.solver_name is not None:
        return options.solver_name
    if work_of(options) is not None:
        return SOLVER
    if options.dp_epsilon is not None:
        return "newton" if options.model == "lr" or options.binned else "agp"
    return "newton" if parameters <= LARGEST_MATRIX.get(options.model, 400) else "lbfgs"


def why_solver(options: Options, parameters: int) -> str:
    """Which solver trains, and why that one."""
    name, own = solver_name(options, parameters), METHODS[options.after or options.method]
    if own.own_solver:
        return f"{own.title} has a solver of its own"
    if options.solver_name is not None:
        return f"{name}, as asked for"
    if work_of(options) is not None:
        return f"{name}, for local epochs"
    if options.dp_epsilon is not None:
        return f"{name}, for differential privacy"
    most = LARGEST_MATRIX.get(options.model, 400)
    compared = "at most" if parameters <= most else "more than"
    return f"{name}: {parameters:,} parameters, {compared} {most:,}"


def rounds_of(options: Options, solver: str) -> int:
    """The most rounds."""
    if options.rounds is not None:
        return options.rounds
    if work_of(options) is not None:
        return LOCAL_ROUNDS
    if options.dp_epsilon is not None:
        stepped = options.binned and solver == "newton"
        return PRIVATE_ROUNDS_OF_STEPS if stepped else PRIVATE_ROUNDS.get(solver, 1000)
    return METHODS[options.after or options.method].rounds or ROUNDS.get(solver, 300)


def promise_of(options: Options, schema: Schema) -> Promise | None:
    """Differential privacy as the options plan it."""
    if options.dp_epsilon is None:
        return None
    solver = solver_name(options, 0)
    budget = Budget(options.dp_epsilon, options.dp_delta)
    rounds = rounds_of(options, solver)
    shares = Split(*options.dp_split)
    curvature = solver == "newton" and not options.binned
    plan = Plan.of(budget, shares, rounds, curvature)
    return Promise(plan, Clip(options.dp_clip * _longest(options, schema)))


def _longest(options: Options, schema: Schema) -> float:
    """The unit of `dp_clip`: 1, or half the longest gradient of a row of steps, which all have a
    one for the intercept and for every term.

    The gradient is that input times the probabilities minus the row's class. These are at most 1
    long with one output, sqrt 2 with several.
    """
    if not options.binned:
        return 1.0
    pairs = options.crossed
    terms = len(schema.features) + (0 if isinstance(pairs, int) else len(pairs))
    outputs = 1 if len(schema.classes) == 2 else 2
    return float(np.sqrt((1 + terms) * outputs) / 2)


def check_rows(options: Options, posed: Posed, totals: Totals) -> None:
    """Refuse rows that no training or no constraint can use."""
    schema, method = posed.schema, METHODS[options.after or options.method]
    by_class = totals.cells.sum(axis=0)
    if np.count_nonzero(by_class) < 2 and totals.rows == totals.cells.sum():
        only = schema.classes[int(np.argmax(by_class))]
        raise FairSiloError(
            f"all training rows are of class {only!r}: give rows of at least two classes"
        )
    if method.shared or METHODS[options.method].decides:
        estimator = method.estimator or options.estimator
        check_defined(posed.constraints, estimator, totals, schema.groups, schema.classes)  # type: ignore[arg-type]


def pooled_below(options: Options, schema: Schema) -> int:
    """Below how many rows a group is pooled; 0 for never."""
    if options.dp_epsilon is not None:
        # Exact counts would decide. A group that is too small is refused by its noisy count.
        return 0
    if options.pool is not None:
        return options.pool
    return SMALLEST if schema.group_columns else 0


def encoded_columns(names: Iterable[str], encoder: Encoder) -> tuple[int, ...]:
    """Where the features of these names ended up: "sex=Female", "ethnicity"."""
    names = tuple(names)
    return tuple(
        i
        for i, feature in enumerate(encoder.feature_names)
        if any(feature == name or feature.startswith((f"{name}=", f"{name} (")) for name in names)
    )
