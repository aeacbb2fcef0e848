"""Compute the missing parts of the results and report progress."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fairsilo.compute import jax
from fairsilo.data import write_atomic
from fairsilo.data.datasets import raw_files
from fairsilo.experiment.cell import (
    Draw,
    constant_rows,
    hold_out,
    prepare_cell,
    run_local,
    run_method,
    settled,
)
from fairsilo.experiment.choice import FOLD_SPLITS
from fairsilo.experiment.grid import LOCAL, SEEDS, Cell, home_of, settings, solver_of
from fairsilo.experiment.results import Results, cores, cross_validated
from fairsilo.experiment.theorems import check
from fairsilo.experiment.theorems_trained import check_trained
from fairsilo.experiment.theorems_words import THEOREMS, TRAINED
from fairsilo.method import Trained

Say = Callable[[str, int, int, float], None]
"""Called before each part: its name, parts begun before, all parts, seconds left (or -1)."""

AT_ONCE = 4
"""The most cells to compute at a time; each holds its data twice for every seed (0.4 GB for five of
ADULT), on a GPU until its AF is finished."""


@dataclass
class Tables:
    """The data of one cell, prepared once and shared by its methods."""

    cell: Cell
    data_dir: Path | None
    seeds: Sequence[int] = SEEDS
    _full: list[Draw] = field(default_factory=list)
    _held: list[Draw] = field(default_factory=list)
    _folds: list[Draw] = field(default_factory=list)
    base: dict[str, list[Trained]] = field(default_factory=dict)
    """FedAvg's models by solver path, one per seed: EO and CEO start from them."""

    @property
    def full(self) -> list[Draw]:
        """All training rows, tested on the test rows; one per seed."""
        if not self._full:
            self._full = [
                settled(self.cell, Draw(seed, "test", prepare_cell(self.cell, seed, self.data_dir)))
                for seed in self.seeds
            ]
        return self._full

    @property
    def held(self) -> list[Draw]:
        """Four fifths of the training rows, tested on the rest; one per seed."""
        if not self._held:
            self._held = [
                settled(self.cell, Draw(one.seed, "validation", hold_out(one.plain, one.seed)))
                for one in self.full
            ]
        return self._held

    @property
    def classes(self) -> int:
        """How many classes the label has."""
        return len(self.full[0].prepared.schema.classes)

    @property
    def folds(self) -> list[Draw]:
        """The other folds of a cross-validation, of the seeds that are cross-validated."""
        if not self._folds:
            self._folds = [
                Draw(one.seed, split, hold_out(one.prepared, one.seed, fold))
                for fold, split in enumerate(FOLD_SPLITS)
                if fold
                for one in self.full
                if one.seed in SEEDS
            ]
        return self._folds

    def prepare(self, validation: bool, cv: bool = False) -> None:
        """Compute the cached properties before several threads use them."""
        _ = self.full, self.held if validation else None, self.folds if cv else None


def run_parts(
    results: Results,
    cells: Sequence[Cell],
    path: str,
    data_dir: Path | None,
    say: Say,
    validation: bool = True,
    theorems: bool = False,
    seeds: int = len(SEEDS),
    cv: bool = False,
    only: Sequence[str] = (),
) -> int:
    """Compute the missing parts of the cells; returns how many were computed.

    `cv` also cross-validates the logistic regressions of the first five seeds. `only` are the
    methods to compute, where not all.

    `theorems` also checks the theorems, every time, in parallel to the last cells.

    A few cells run at a time, the largest first: while one compiles, or waits for a single thread,
    the others compute. AF and local epochs run on the CPU, so if there is a GPU, in parallel to the
    others.
    """
    todo = {
        cell: missing
        for cell in sorted(cells, key=lambda cell: -_weight(cell, "fedfair"))
        if (
            missing := [
                method
                for method in (*cell.methods, "constant")
                if (not only or method in only)
                and not results.answers(path, cell, method, validation, seeds, cv)
            ]
        )
    }
    for data in sorted({cell.data for cell in todo if cell.own is None}):
        raw_files(data, data_dir)  # An error now, and not when its turn comes.
    progress = _Progress(path, say, [(c, method) for c in todo for method in todo[c]])

    def compute(tables: Tables, method: str) -> None:
        cell = tables.cell
        progress.begin(cell, method)
        begun = time.monotonic()
        rows = pd.DataFrame(part_rows(tables, method, path, validation, cv))
        spent = time.monotonic() - begun
        results.write(path, cell, method, validation, rows, spent, seeds, cv)
        progress.end(cell, method)

    def work(cell: Cell) -> None:
        tables = Tables(cell, data_dir, range(seeds))
        for method in sorted(todo[cell], key=lambda method: method != "af"):
            if method in ("af", "fedavg-local") and jax.default_backend() != "cpu":
                tables.prepare(validation, cv)
                aside.append(beside.submit(compute, tables, method))
            else:
                compute(tables, method)

    def check_theorems() -> None:
        for name, table in ((THEOREMS, check), (TRAINED, check_trained)):
            write_atomic(results.folder / name, table().to_csv(index=False).encode())

    aside: list[Future[None]] = []
    pool, beside = (ThreadPoolExecutor(count) for count in (min(AT_ONCE, cores()), AT_ONCE))
    try:
        jobs = [pool.submit(work, cell) for cell in todo]
        if theorems:
            jobs.append(pool.submit(check_theorems))
        for job in as_completed(jobs):
            job.result()
        for part in aside:
            part.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        beside.shutdown(wait=False, cancel_futures=True)
    return progress.total


class _Progress:
    """Reports each part that begins and the time left; safe for several threads."""

    def __init__(self, path: str, say: Say, parts: list[tuple[Cell, str]]) -> None:
        self.path, self.say, self.total = path, say, len(parts)
        self.lock, self.started, self.began = threading.Lock(), time.monotonic(), 0
        self.finished, self.whole = 0.0, sum(_weight(*part) for part in parts)

    def begin(self, cell: Cell, method: str) -> None:
        with self.lock:
            spent = time.monotonic() - self.started
            rest = self.whole - self.finished
            left = spent / self.finished * rest if self.finished else -1.0
            self.say(f"{self.path} {cell.name} {method}", self.began, self.total, left)
            self.began += 1

    def end(self, cell: Cell, method: str) -> None:
        with self.lock:
            self.finished += _weight(cell, method)


def part_rows(
    tables: Tables, method: str, path: str, validation: bool, cv: bool = False
) -> list[dict[str, object]]:
    """One method in one cell: every setting and seed, on test, validation and other folds' rows.

    A method without a setting has nothing to choose on validation rows.
    """
    if method == "constant":
        return constant_rows(tables.full)
    if method == "fedavg-local":
        return run_local(tables.cell, LOCAL, tables.full)
    path, cell = home_of(path, method), tables.cell
    solver = solver_of(path, cell, method)
    grid = settings(cell, method)
    base = tables.base.setdefault(path, [])
    draws = [*tables.full]
    if validation and len(grid) > 1:
        draws += tables.held
    if cv and cross_validated(cell, method):
        draws += tables.folds
    return run_method(cell, method, grid, solver, draws, base)


def _weight(cell: Cell, method: str) -> float:
    """The rough relative time of a part, to order cells and to estimate the time left."""
    rows = {"drug": 1, "compas": 2, "adult": 12}.get(cell.data, 1)
    model = 1 if cell.model == "lr" else 3
    kind = {"fedfair": 4, "lco": 6, "st": 8, "af": 3, "fedavg-local": 3, "constant": 0.1}
    return rows * model * kind.get(method, 1)
