"""One method in one cell: every setting, every seed, on test and on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fairsilo.compute import jax
from fairsilo.evaluate import Tally, summary
from fairsilo.experiment.details import by_client, group_rates, sent
from fairsilo.experiment.grid import Cell
from fairsilo.fairness import Estimator
from fairsilo.method import METHODS, Plain, Task, Trained
from fairsilo.method.base import labels_and_losses
from fairsilo.method.calibrated import fit_calibrated
from fairsilo.method.constrained import solve_many
from fairsilo.method.equalized_odds import fit_equalized_odds
from fairsilo.method.postprocess import Fit, repair_trained
from fairsilo.method.separate import st_many
from fairsilo.model import MODELS
from fairsilo.partition.hold_out import hold_out as set_aside
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.train import constant_metrics
from fairsilo.solver import Agp, Solver

Row = dict[str, Any]


@dataclass(frozen=True)
class Draw:
    """The cell's data, dealt out with a seed; `split` says which rows it is tested on."""

    seed: int
    split: str
    """test or validation."""
    prepared: Prepared


def prepare_cell(cell: Cell, seed: int, data_dir: Path | None) -> Prepared:
    """The cell's data, dealt out with this seed; `mean` is the paper's estimator."""
    return prepare(
        Options(
            data=cell.data,
            data_dir=data_dir,
            partition="iid" if cell.setting == "iid" else "skewed",
            seed=seed,
            estimator="mean",
        )
    )


def hold_out(prepared: Prepared, seed: int) -> Prepared:
    """The same federation, with a share of every client's training rows as its test rows.

    The encoder stays the one of all training rows; it knows means and spreads, no labels.
    """
    rest, aside = set_aside(prepared.federation, seed)
    return replace(prepared, federation=rest, test_x=aside.x, test_y=aside.y, test_s=aside.s)


def run_method(
    cell: Cell,
    method: str,
    settings: Sequence[float],
    solver: tuple[Solver, int],
    draws: Sequence[Draw],
    base: list[Trained] | None = None,
    details: bool = False,
) -> list[Row]:
    """Train with every setting on every draw, and measure every model.

    `base` is filled with the FedAvg models of the seeds, which EO and CEO repair, too.
    `details` adds who pays for each model and what was sent.
    """
    rows: list[Row] = []
    tasks = [_task(cell, draw.prepared, solver, draw.seed, settings[0]) for draw in draws]
    solved = _train(method, tasks, settings, [] if base is None else base)
    for draw, per_setting in zip(draws, solved, strict=True):
        for setting, trained in zip(settings, per_setting, strict=True):
            common = {"setting": setting, "seed": draw.seed, "split": draw.split}
            ended = _ending(trained)
            if details:
                ended |= sent(draw.prepared, trained, solver[0], method)
                ended |= by_client(draw.prepared, trained, draw.seed)
            rows += [
                {**common, "member": member, **measured, **ended}
                for member, measured in enumerate(_measure(draw, trained, details))
            ]
    return rows


def constant_rows(draws: Sequence[Draw]) -> list[Row]:
    """The constant predictor on every draw's test rows."""
    return [
        {
            "setting": 0.0,
            "seed": draw.seed,
            "split": draw.split,
            "member": 0,
            **constant_metrics(draw.prepared),
        }
        for draw in draws
    ]


def _task(
    cell: Cell, prepared: Prepared, solver: tuple[Solver, int], seed: int, epsilon: float
) -> Task:
    name = "lr" if cell.model == "lr" else "mlp"
    return Task(
        federation=prepared.federation,
        model=MODELS[name](prepared.encoder_width, len(prepared.schema.classes)),
        constraints=prepared.constraints,
        epsilon=epsilon,
        estimator="mean",
        solver=solver[0],
        rounds=solver[1],
        seed=seed,
        group_columns=prepared.group_columns,
    )


REPAIRS: dict[str, Fit] = {
    "eo": fit_equalized_odds,
    "eo-conditional": partial(fit_equalized_odds, variant="conditional"),
    "ceo": fit_calibrated,
}
"""What follows FedAvg, by method."""


def _train(
    method: str, tasks: list[Task], settings: Sequence[float], base: list[Trained]
) -> Iterator[list[Trained]]:
    """For each task, a model for each setting; draws share a program where there is a GPU."""
    if method == "af":
        for task in tasks:
            yield [METHODS[method](replace(task, epsilon=setting), None) for setting in settings]
    elif method == "st":
        yield from _batched(st_many, tasks, settings)
    elif method in ("fedfair", "lco"):
        estimator: Estimator = "local" if method == "lco" else "mean"
        changed = [replace(task, estimator=estimator) for task in tasks]
        yield from _batched(solve_many, changed, settings)
    else:
        if not base:
            free = [replace(task, estimator="pooled", constraints=()) for task in tasks]
            base.extend(one for (one,) in _batched(solve_many, free, settings))
        for task, trained in zip(tasks, base, strict=True):
            fit = REPAIRS.get(method)
            yield [trained if fit is None else repair_trained(task, trained, method, fit)]


def _batched(
    many: Callable[..., list[list[Trained]]], tasks: list[Task], settings: Sequence[float]
) -> Iterator[list[Trained]]:
    """All tasks in one program on a GPU; one after the other on a CPU, which is as fast."""
    together = jax.default_backend() != "cpu"
    thin = isinstance(tasks[0].solver, Agp)
    for group in [tasks] if together else [[task] for task in tasks]:
        yield from many(group, settings, None, thin)


def _measure(draw: Draw, trained: Trained, details: bool) -> Iterator[Row]:
    prepared, seed = draw.prepared, draw.seed
    x, y, s = prepared.test_x, prepared.test_y, prepared.test_s
    plain = [one for one in trained.predictors if isinstance(one, Plain)]
    if len(plain) == len(trained.predictors):
        outputs = labels_and_losses(plain, x, y)
    else:
        outputs = [(one.labels(x, s, seed), one.losses(x, y, s)) for one in trained.predictors]
    shape = {"groups": len(prepared.schema.groups), "classes": len(prepared.schema.classes)}
    for labels, losses in outputs:
        tally = Tally.of(y, s, labels, losses, **shape)
        rates = group_rates(prepared, tally) if details else {}
        yield {**summary(tally, prepared.constraints), **rates}


def _ending(trained: Trained) -> Row:
    last = trained.outcome.last
    return {
        "status": trained.outcome.status.name.lower(),
        "rounds": trained.outcome.rounds,
        "loss": float(last.loss),
        "residual": float(last.residual),
        "violation": float(last.violation),
    }
