"""Compute what is not finished yet, part by part, and say how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fairsilo.data import write_atomic
from fairsilo.experiment.cell import constant_rows, hold_out, prepare_cell, run_method, tidy
from fairsilo.experiment.grid import SEEDS, Cell, parts_of, settings, solver_of
from fairsilo.experiment.markdown import results_page
from fairsilo.experiment.pages import reproduce_page
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import build, verdict
from fairsilo.experiment.theorems import check
from fairsilo.method import Trained
from fairsilo.run.prepare import Prepared

Say = Callable[[str, int, int, float], None]
"""Called before each part: what, how many are done, of how many, seconds left (or -1)."""


@dataclass
class Tables:
    """The data of one cell, prepared once and shared by its methods."""

    cell: Cell
    data_dir: Path | None
    seeds: Sequence[int] = SEEDS
    _full: list[Prepared] = field(default_factory=list)
    _held: list[Prepared] = field(default_factory=list)
    base: dict[str, list[Trained]] = field(default_factory=dict)
    """FedAvg's models by solver path, one per seed: EO and CEO start from them."""

    @property
    def full(self) -> list[Prepared]:
        """All training rows, tested on the test rows; one per seed."""
        if not self._full:
            self._full = [prepare_cell(self.cell, seed, self.data_dir) for seed in self.seeds]
        return self._full

    @property
    def held(self) -> list[Prepared]:
        """Four fifths of the training rows, tested on the rest; one per seed."""
        if not self._held:
            pairs = zip(self.full, self.seeds, strict=True)
            self._held = [hold_out(one, seed) for one, seed in pairs]
        return self._held


def run_parts(
    results: Results,
    cells: Sequence[Cell],
    path: str,
    data_dir: Path | None,
    say: Say,
    validation: bool = True,
) -> int:
    """Compute the missing parts of the cells; returns how many were computed."""
    todo = [
        (cell, method)
        for cell in cells
        for method in parts_of(path, cell)
        if not results.has(path, cell, method)
    ]
    total = len(todo)
    weights = [_weight(cell, method) for cell, method in todo]
    started = time.monotonic()
    tables: Tables | None = None
    for done, (cell, method) in enumerate(todo):
        spent, share = time.monotonic() - started, sum(weights[:done])
        left = spent / share * sum(weights[done:]) if share else -1.0
        say(f"{path} {cell.name} {method}", done, total, left)
        if tables is None or tables.cell != cell:
            tables = Tables(cell, data_dir)
        begun = time.monotonic()
        rows = part_rows(tables, method, path, validation)
        results.write(path, cell, method, tidy(rows), time.monotonic() - begun)
    return total


def part_rows(tables: Tables, method: str, path: str, validation: bool) -> list[dict[str, object]]:
    """One method in one cell: every setting and seed, on test and on validation rows."""
    if method == "constant":
        return constant_rows(tables.full)
    cell, solver = tables.cell, solver_of(path, tables.cell, method)
    grid = settings(cell, method)
    base = tables.base.setdefault(path, [])
    rows = run_method(cell, method, grid, solver, tables.full, "test", base)
    if validation and len(grid) > 1:
        rows += run_method(cell, method, grid, solver, tables.held, "validation")
    elif validation:
        # Nothing to choose: the honest choice is the same model.
        rows += [{**row, "split": "validation"} for row in rows]
    return rows


def publish(results: Results, path: str, theorems: bool) -> list[tuple[str, pd.DataFrame]]:
    """Write tables.csv, theorems.csv and the page; returns the verdicts."""
    folder = results.folder
    tables = build(results)
    write_atomic(folder / "tables.csv", tables.to_csv(index=False).encode())
    if theorems:
        write_atomic(folder / "theorems.csv", check().to_csv(index=False).encode())
    verdicts = [
        (f"{name}, {selection}", verdict(tables, name, selection))
        for name in ("fast", "agp")
        for selection in ("test", "validation")
    ]
    write_atomic(folder / "report.html", reproduce_page(results, tables, verdicts).encode())
    write_atomic(folder / "README.md", results_page(results, tables, verdicts).encode())
    return [(name, found) for name, found in verdicts if name.startswith(path)]


def _weight(cell: Cell, method: str) -> float:
    """How long a part takes beside others, roughly: for the time left, nothing else."""
    rows = {"drug": 1, "compas": 2, "adult": 12}[cell.data]
    model = 1 if cell.model == "lr" else 3
    kind = {"fedfair": 4, "lco": 6, "st": 8, "af": 3, "constant": 0.1}
    return rows * model * kind.get(method, 1)
