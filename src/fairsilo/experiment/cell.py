"""Train and measure one method in one cell: every setting and seed, on test or validation rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fairsilo.compute import jax
from fairsilo.evaluate import Tally, summary
from fairsilo.experiment.details import by_client, group_rates, intervals, sent, trace
from fairsilo.experiment.grid import Cell
from fairsilo.fairness import Estimator
from fairsilo.method import METHODS, Task, Trained
from fairsilo.method.answers import on_rows
from fairsilo.method.calibrated import fit_calibrated
from fairsilo.method.constrained import solve_many
from fairsilo.method.equalized_odds import fit_equalized_odds
from fairsilo.method.postprocess import Fit, repair_trained
from fairsilo.method.separate import st_many
from fairsilo.model import MODELS
from fairsilo.partition.hold_out import hold_out as set_aside
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.train import constant_metrics, constant_tally
from fairsilo.solver import Agp, Solver

Row = dict[str, Any]


@dataclass(frozen=True)
class Draw:
    """The cell's data, partitioned with a seed; `split` says which rows it is tested on."""

    seed: int
    split: str
    """test or validation."""
    prepared: Prepared

    @property
    def traced(self) -> bool:
        """Whether rounds of the training are kept: only for the data of the paper's Figure 1."""
        return self.split == "test" and self.seed == 0


def prepare_cell(cell: Cell, seed: int, data_dir: Path | None) -> Prepared:
    """The cell's data, partitioned with this seed; `mean` is the paper's estimator."""
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

    The encoder of all training rows is kept; it holds means and deviations, but no labels.
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
) -> list[Row]:
    """Train with every setting on every draw, and measure every model.

    `base` is filled with the FedAvg models of the seeds, which EO and CEO start from. Models
    tested on the test rows are also measured client by client.
    """
    rows: list[Row] = []
    tasks = [_task(cell, draw.prepared, solver, draw.seed, settings[0]) for draw in draws]
    solved = _train(method, tasks, settings, [] if base is None else base)
    for draw, per_setting in zip(draws, solved, strict=True):
        with on_host():
            rows += _measured(draw, settings, per_setting, solver[0], method)
    return rows


def on_host() -> AbstractContextManager[Any]:
    """Run this thread's programs on the CPU: for those that take longer to compile for a GPU."""
    try:
        (device, *_) = jax.local_devices(backend="cpu")
    except RuntimeError:  # JAX_PLATFORMS excludes the CPU
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
        {
            "setting": 0.0,
            "seed": draw.seed,
            "split": draw.split,
            "member": 0,
            **constant_metrics(draw.prepared),
            **_details(draw.prepared, constant_tally(draw.prepared)),
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
"""The post-processing after FedAvg, by method."""


def _train(
    method: str, tasks: list[Task], settings: Sequence[float], base: list[Trained]
) -> Iterator[list[Trained]]:
    """For each task, a model for each setting; on a GPU all draws share a program."""
    if method == "af":
        # AF solves a linear program every few small steps; a GPU would wait for the host.
        with on_host():
            solved = [
                [METHODS[method](replace(task, epsilon=setting), None) for setting in settings]
                for task in tasks
            ]
        yield from solved
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
