"""One method in one cell: every setting, every seed, on test and on validation rows."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.compute import jax
from fairsilo.engine import Pooled, solve_many
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally, summary
from fairsilo.experiment.details import by_client, group_rates, intervals, sent, trace
from fairsilo.experiment.grid import Cell
from fairsilo.experiment.results import cores
from fairsilo.fairness.constraint import count_cells
from fairsilo.fairness.weigh import totals_of
from fairsilo.method import METHODS, Trained
from fairsilo.method.base import Method, solved, who_takes_part
from fairsilo.method.fedavg import fedavg, unconstrained
from fairsilo.method.repair import FITS, repaired
from fairsilo.method.st import train_many
from fairsilo.partition.hold_out import hold_out as set_aside
from fairsilo.predictor.answers import on_rows
from fairsilo.question import Problem
from fairsilo.question.base import Work
from fairsilo.run.measure import constant_metrics, constant_tally
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import LOCAL_ROUNDS, check_rows, plan
from fairsilo.solver import Agp, Solver

Row = dict[str, Any]
Posed = tuple[Problem, Pooled]
TOGETHER = 10
"""The most draws in one program of a GPU: its memory holds every setting of that many."""


@dataclass(frozen=True)
class Draw:
    """The cell's data, dealt out with a seed; `split` says which rows it is tested on."""

    seed: int
    split: str
    """test, validation or, of a cross-validation, a further fold."""
    prepared: Prepared

    @property
    def traced(self) -> bool:
        """Whether some rounds of the training are kept: those of the paper's Figure 1."""
        return self.split == "test" and self.seed == 0


def prepare_cell(cell: Cell, seed: int, data_dir: Path | None) -> Prepared:
    """The cell's data, dealt out with this seed."""
    return prepare(cell.options(seed, data_dir))


def hold_out(prepared: Prepared, seed: int, fold: int = 0) -> Prepared:
    """The same federation, with a fifth of every client's training rows as its test rows.

    The encoder stays the one of all training rows; it knows means and spreads, no labels.
    """
    rest, aside = set_aside(prepared.federation, seed, fold)
    return replace(prepared, federation=rest, test_x=aside.x, test_y=aside.y, test_s=aside.s)


def refused(cell: Cell, method: str, draw: Draw) -> str:
    """Why a method cannot be compared on these rows; empty where it can."""
    if method == "constant":
        return ""
    spec, prepared = METHODS[method.removesuffix("-conditional")], draw.prepared
    options = replace(cell.options(draw.seed), method=spec.name)
    try:
        spec.check(plan(options, prepared))
        check_rows(options, prepared, totals_of(prepared.federation, prepared.constraints))
    except FairSiloError as error:
        return str(error)
    return ""


def check_measurable(draws: Sequence[Draw]) -> None:
    """Refuse test or validation rows that lack a compared group: no fairness is known of them."""
    for draw in draws:
        prepared = draw.prepared
        shape = len(prepared.schema.groups), len(prepared.schema.classes)
        cells = count_cells(prepared.test_y, prepared.test_s, *shape)
        for pair in prepared.compared:
            if not all(cells[side].any() for side in pair.sides(*shape)):
                raise FairSiloError(
                    f"seed {draw.seed} has no {draw.split} row on a side of "
                    f"{prepared.describe(pair)}, so that its fairness is not known: choose other "
                    "`groups` or another `protected_class`, or give more rows"
                )


def run_local(cell: Cell, work: Work, draws: Sequence[Draw]) -> list[Row]:
    """FedAvg with local epochs on every draw."""
    solver = Agp(), LOCAL_ROUNDS
    rows: list[Row] = []
    for draw in draws:
        problem, engine = posed_of(cell, draw.prepared, solver, draw.seed, 0.0)
        with on_host():
            trained = fedavg(replace(problem, work=work), engine)
            rows += _measured(draw, (0.0,), [trained], solver[0], fedavg.name)
    return rows


def run_method(
    cell: Cell,
    method: str,
    settings: Sequence[float],
    solver: tuple[Solver, int],
    draws: Sequence[Draw],
    base: list[Trained] | None = None,
) -> list[Row]:
    """Train with every setting on every draw, and measure every model.

    `base` is filled with the FedAvg models of the seeds, which EO and CEO repair, too. Models that
    are tested on the test rows are also measured client by client.
    """
    rows: list[Row] = []
    posed = [posed_of(cell, draw.prepared, solver, draw.seed, settings[0]) for draw in draws]
    trained_all = _train(method, posed, settings, [] if base is None else base)
    for draw, per_setting in zip(draws, trained_all, strict=True):
        with on_host():
            rows += _measured(draw, settings, per_setting, solver[0], method)
    return rows


def on_host() -> AbstractContextManager[Any]:
    """Programs of this thread run on the CPU: those that would take longer to compile for a GPU."""
    try:
        (device, *_) = jax.local_devices(backend="cpu")
    except RuntimeError:  # JAX_PLATFORMS names none
        return nullcontext()
    host: AbstractContextManager[Any] = jax.default_device(device)
    return host


def _measured(
    draw: Draw, settings: Sequence[float], solved: Sequence[Trained], solver: Solver, method: str
) -> Iterator[Row]:
    whole = draw.split == "test"
    clients = by_client(draw.prepared, solved, draw.seed) if whole else [{}] * len(settings)
    for setting, trained, paid in zip(settings, solved, clients, strict=True):
        common = {"setting": setting, "seed": draw.seed, "split": draw.split}
        ended = _ending(trained) | sent(draw.prepared, trained, solver, method) | paid
        for row in _measure(draw, trained):
            kept = {"trace": trace(trained, method)} if draw.traced and not row["member"] else {}
            yield {**common, **row, **ended, **kept}


def constant_rows(draws: Sequence[Draw]) -> list[Row]:
    """The constant predictor on every draw's test rows."""
    return [
        {"setting": 0.0, "seed": draw.seed, "split": draw.split, "member": 0, **_constant(draw)}
        for draw in draws
    ]


def _constant(draw: Draw) -> Row:
    prepared = draw.prepared
    y, s = prepared.test_y, prepared.test_s
    shape: dict[str, Any] = {
        "groups": len(prepared.schema.groups),
        "classes": len(prepared.schema.classes),
    }
    rows = Tally.of(y, s, y, np.zeros(len(y)), **shape)
    common = int(np.argmax(np.bincount(prepared.federation.y)))
    figures = constant_metrics(prepared, rows, common)
    return {**figures, **_details(prepared, constant_tally(rows, common))}


def posed_of(
    cell: Cell, prepared: Prepared, solver: tuple[Solver, int], seed: int, epsilon: float
) -> Posed:
    """The cell's problem on a draw."""
    by, rounds = solver
    posed = plan(cell.options(seed), prepared)
    problem = replace(posed, epsilon=epsilon, solver=by, rounds=rounds)
    return problem, Pooled(prepared.federation)


def _train(
    method: str, posed: list[Posed], settings: Sequence[float], base: list[Trained]
) -> Iterator[list[Trained]]:
    """For each problem, a model for each setting; draws share a program where there is a GPU."""
    spec = METHODS.get(method)
    if spec is not None and spec.own_solver:
        # Its steps are NumPy's: a GPU would wait for the host.
        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(partial(_alone, spec, settings), posed)
    elif method == "st":
        yield from _batched(train_many, posed, settings)
    elif spec is not None and spec.shared:
        by = [(replace(one, estimator=spec.estimator or one.estimator), at) for one, at in posed]
        yield from _batched(_solve_many, by, settings)
    else:
        if not base:
            free = [(unconstrained(one), at) for one, at in posed]
            base.extend(one for (one,) in _batched(_solve_many, free, settings[:1]))
        for (problem, engine), trained in zip(posed, base, strict=True):
            fits = method in FITS
            yield [repaired(problem, engine, trained, method) if fits else trained]


def _alone(method: Method, settings: Sequence[float], posed: Posed) -> list[Trained]:
    """From the loosest limit on, each from the optimum of the one before: it is unique."""
    problem, engine = posed
    model, found = problem.model, dict[float, Trained]()
    with on_host():
        for setting in sorted(settings, reverse=True):
            one = method(replace(problem, epsilon=setting, model=model), engine)
            model, found[setting] = problem.model.starting_at(one.outcome.theta), one
    return [found[setting] for setting in settings]


def _solve_many(
    problems: Sequence[Problem], engines: Sequence[Pooled], settings: Sequence[float], thin: bool
) -> list[list[Trained]]:
    outcomes = solve_many(problems, engines, settings, None, thin)
    return [
        [solved(problem, one, who_takes_part(problem, engine)) for one in per_setting]
        for problem, engine, per_setting in zip(problems, engines, outcomes, strict=True)
    ]


def _batched(
    many: Callable[..., list[list[Trained]]], posed: list[Posed], settings: Sequence[float]
) -> Iterator[list[Trained]]:
    """Many problems in one program on a GPU; one after the other on a CPU, which is as fast."""
    size = 1 if jax.default_backend() == "cpu" else TOGETHER
    thin = isinstance(posed[0][0].solver, Agp)
    for start in range(0, len(posed), size):
        problems, engines = zip(*posed[start : start + size], strict=True)
        yield from many(problems, engines, settings, thin=thin)


def _measure(draw: Draw, trained: Trained) -> Iterator[Row]:
    prepared = draw.prepared
    x, y, s = prepared.test_x, prepared.test_y, prepared.test_s
    groups, classes = len(prepared.schema.groups), len(prepared.schema.classes)
    answers = on_rows(trained.predictors, x, y, s, draw.seed)
    for member, (labels, losses) in enumerate(answers):
        tally = Tally.of(y, s, labels, losses, groups=groups, classes=classes)
        figures = summary(tally, prepared.constraints)
        yield {"member": member, **figures, **_details(prepared, tally)}


def _details(prepared: Prepared, tally: Tally) -> Row:
    return intervals(prepared, tally) | group_rates(prepared, tally)


def _ending(trained: Trained) -> Row:
    last = trained.outcome.last
    return {
        "status": trained.outcome.status.name.lower(),
        "rounds": trained.outcome.rounds,
        "loss": float(last.loss),
        "residual": float(last.residual),
        "violation": float(last.violation),
    }
