"""One method in one cell: every setting, every seed, on test and on validation rows."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.compute import jax
from fairsilo.engine import Pooled, solve_many
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally, summary
from fairsilo.experiment.details import by_client, group_rates, intervals, judged, sent, trace
from fairsilo.experiment.grid import LOCAL, Cell, solver_of
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
from fairsilo.run.measure import constant_tally
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import check_rows, plan
from fairsilo.run.settle import Settled
from fairsilo.run.tallies import with_claims
from fairsilo.run.train import settle_here, train
from fairsilo.solver import Agp, Solver
from fairsilo.solver.penalty import Penalty
from fairsilo.solver.strengths import Choosing

Row = dict[str, Any]
Posed = tuple[Problem, Pooled]
TOGETHER = 10
"""The most draws in one program of a GPU, whose memory holds every setting's matrices of that many.
AGP has none: all draws together."""


@dataclass(frozen=True)
class Draw:
    """The cell's data, dealt out with a seed; `split` says which rows it is tested on."""

    seed: int
    split: str
    """test, validation or, of a cross-validation, a further fold."""
    prepared: Prepared
    before: Prepared | None = None
    """The same without pairs of features, where it has any."""
    penalty: Penalty | Choosing | None = None
    """With the strengths that its rows chose."""

    @property
    def plain(self) -> Prepared:
        """The data as it was before anything was settled from labels."""
        return self.before or self.prepared

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
    return replace(
        prepared, federation=rest, test_x=aside.x, test_y=aside.y, test_s=aside.s,
        test_weight=aside.weight,
    )  # fmt: skip


def settled(cell: Cell, draw: Draw) -> Draw:
    """With the pairs of features and the penalty that the cell asks for, found on these rows."""
    options, prepared = cell.options(draw.seed), draw.prepared
    if options.strength is None and not options.crossed:
        return draw
    posed, engine = plan(options, prepared), Pooled(prepared.federation)
    found, crossed, _ = settle_here(options, prepared, posed, engine)
    return replace(draw, prepared=crossed, before=prepared, penalty=found.problem.penalty)


def unsettled(draw: Draw) -> Draw:
    """Without pairs and penalty, for methods that have none."""
    return Draw(draw.seed, draw.split, draw.plain)


def refused(cell: Cell, method: str, draw: Draw, aimed: bool = False) -> str:
    """Why a method cannot be compared on these rows; empty where it can.

    `aimed`: with the cell's target in rates.
    """
    if method == "constant":
        return ""
    prepared = draw.prepared
    name = method.removesuffix("-conditional").removesuffix("-local")
    local = {"local_epochs": LOCAL.epochs, "batch": LOCAL.batch} if method.endswith("local") else {}
    try:
        options = replace(cell.options(draw.seed), method=name, **local)  # type: ignore[arg-type]
        if aimed:
            options = cell.aimed(draw.seed, method)
        METHODS[name].check(plan(options, prepared))
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
        for pair in dict.fromkeys((*prepared.compared, *judged(prepared))):
            if not all(cells[side].any() for side in pair.sides(*shape)):
                raise FairSiloError(
                    f"seed {draw.seed} has no {draw.split} row on a side of "
                    f"{prepared.describe(pair)}, so that its fairness is not known: choose other "
                    "`groups` or another `protected_class`, or give more rows"
                )


def run_local(cell: Cell, work: Work, draws: Sequence[Draw]) -> list[Row]:
    """FedAvg with local epochs on every draw."""
    solver = solver_of("agp", cell, "fedavg-local")

    def one(draw: Draw) -> list[Row]:
        problem, engine = posed_of(cell, draw, solver, 0.0)
        # Its steps are small: a GPU would wait for the host.
        with on_host():
            trained = fedavg(replace(problem, work=work), engine)
            return list(_measured(draw, (0.0,), [trained], solver[0], fedavg.name))

    with ThreadPoolExecutor(cores()) as pool:
        return [row for rows in pool.map(one, map(unsettled, draws)) for row in rows]


def run_aimed(
    cell: Cell, method: str, solver: Solver, draws: Sequence[Draw], target: float | None = None
) -> list[Row]:
    """A method with a target in rates, the cell's own or this one, on every draw: as `train`."""

    def one(draw: Draw) -> list[Row]:
        options: Options = replace(cell.aimed(draw.seed, method, target), solver=solver)
        problem = replace(plan(options, draw.prepared), penalty=draw.penalty)
        with on_host():
            trained = train(options, Settled(problem), Pooled(draw.prepared.federation))
            return list(_measured(draw, (options.target_deo or 0.0,), [trained], solver, method))

    with ThreadPoolExecutor(cores()) as pool:
        return [row for rows in pool.map(one, draws) for row in rows]


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
    if method in METHODS and not METHODS[method].penalised:
        draws = [unsettled(draw) for draw in draws]
    posed = [posed_of(cell, draw, solver, settings[0]) for draw in draws]
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
    rows = _tally(prepared, prepared.test_y, np.zeros(len(prepared.test_y))).effective
    trained = prepared.federation
    common = int(np.argmax(np.bincount(trained.y, trained.weight)))
    tally = constant_tally(rows, common)
    figures = summary(tally, judged(prepared))
    figures.pop("dgeo_pooled")
    return {**figures, **_details(prepared, tally)}


def posed_of(cell: Cell, draw: Draw, solver: tuple[Solver, int], epsilon: float) -> Posed:
    """The cell's problem on a draw."""
    by, rounds = solver
    posed = plan(cell.options(draw.seed), draw.prepared)
    problem = replace(posed, epsilon=epsilon, solver=by, rounds=rounds, penalty=draw.penalty)
    return problem, Pooled(draw.prepared.federation)


def _train(
    method: str, posed: list[Posed], settings: Sequence[float], base: list[Trained]
) -> Iterator[list[Trained]]:
    """For each problem, a model for each setting; draws share a program where there is a GPU."""
    spec = METHODS.get(method)
    # Every draw has a penalty of its own, and its columns: no program is shared.
    alone = posed[0][0].penalty is not None
    if spec is not None and spec.shared:
        posed = [(replace(one, estimator=spec.estimator or one.estimator), at) for one, at in posed]
    if spec is not None and (spec.own_solver or (spec.shared and alone)):
        # Its steps are NumPy's: a GPU would wait for the host.
        with ThreadPoolExecutor(cores()) as pool:
            yield from pool.map(partial(_alone, spec, settings), posed)
    elif method == "st":
        yield from _batched(train_many, posed, settings)
    elif spec is not None and spec.shared:
        yield from _batched(_solve_many, posed, settings)
    else:
        if not base:
            free = [(unconstrained(one), at) for one, at in posed]
            each = (
                (_alone(fedavg, settings[:1], one) for one in free)
                if alone
                else _batched(_solve_many, free, settings[:1])
            )
            base.extend(one for (one,) in each)
        for (problem, engine), trained in zip(posed, base, strict=True):
            fits = method in FITS
            yield [repaired(problem, engine, trained, method) if fits else trained]


def _alone(method: Method, settings: Sequence[float], posed: Posed) -> list[Trained]:
    """From the loosest limit on, each from the optimum of the one before: it is unique."""
    problem = posed[0]
    # An engine of its own: what silos keep of a training goes with it.
    engine = Pooled(posed[1].federation)
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
    thin = isinstance(posed[0][0].solver, Agp)
    together = len(posed) if thin else TOGETHER
    size = 1 if jax.default_backend() == "cpu" else together
    for start in range(0, len(posed), size):
        problems, engines = zip(*posed[start : start + size], strict=True)
        yield from many(problems, engines, settings, thin=thin)


def _measure(draw: Draw, trained: Trained) -> Iterator[Row]:
    prepared = draw.prepared
    x, y, s = prepared.test_x, prepared.test_y, prepared.test_s
    answers = on_rows(trained.predictors, x, y, s, draw.seed)
    each = zip(answers, trained.predictors, strict=True)
    for member, (said, predictor) in enumerate(each):
        tally = _tally(prepared, *said)
        tally = with_claims(tally, predictor, x, y, s, prepared, prepared.test_weight).effective
        figures = summary(tally, prepared.constraints, judged(prepared))
        yield {"member": member, **figures, **_details(prepared, tally)}


def _tally(prepared: Prepared, labels: Ints, losses: Floats) -> Tally:
    """Of the test rows."""
    groups, classes = len(prepared.schema.groups), len(prepared.schema.classes)
    return Tally.of(
        prepared.test_y, prepared.test_s, labels, losses,
        groups=groups, classes=classes, weight=prepared.test_weight,
    )  # fmt: skip


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
