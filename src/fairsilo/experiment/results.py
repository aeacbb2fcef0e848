"""The results folder: one file (part) per cell and method, so that nothing is computed twice."""

import json
import os
import platform
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from fairsilo import __version__
from fairsilo.compute import jax
from fairsilo.data import write_atomic
from fairsilo.experiment.choice import chosen
from fairsilo.experiment.endings import without_lost
from fairsilo.experiment.grid import (
    CELLS,
    FOLDS,
    LOCAL,
    SEEDS,
    Cell,
    home_of,
    settings,
    solver_of,
)
from fairsilo.method import METHODS

KEPT = ("figures", "intervals", "groups", "clients", "bytes", "trace")
"""What a part holds of its models; a part without some of these is computed again."""

MORE = ("seeds", "validation", "folds")
"""Of these a part may have more than is asked for."""


@dataclass(frozen=True)
class Made:
    """The finished parts of a path: number, time and machines."""

    parts: int
    seconds: float
    """The sum of the parts' times, although several are computed at once."""
    machines: list[str]


@dataclass(frozen=True)
class Results:
    """Tidy tables under `folder/parts/path/cell/method.parquet`."""

    folder: Path
    cells: tuple[Cell, ...] = CELLS
    """What is studied: the paper's cells, or those of one own table."""
    _read: dict[Path, pd.DataFrame] = field(default_factory=dict, compare=False, repr=False)
    """Cache of the parts that were read; they are not modified."""
    _made: dict[tuple[object, ...], pd.DataFrame] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Cache of what follows from them."""

    @property
    def own(self) -> bool:
        """Whether an own table is studied, which the paper says nothing of."""
        return all(cell.own is not None for cell in self.cells)

    def file(self, path: str, cell: Cell, method: str) -> Path:
        """The file of a part."""
        return self.folder / "parts" / home_of(path, method) / cell.name / f"{method}.parquet"

    def has(self, path: str, cell: Cell, method: str) -> bool:
        """Whether the part exists; of an own table, whether it is of these rows and options."""
        if not self.file(path, cell, method).is_file():
            return False
        if cell.own is None:
            return True
        made = json.loads(self.read(path, cell, method)["asked"].iloc[0])
        return bool(made.get("own") == _own_question(cell))

    def answers(
        self,
        path: str,
        cell: Cell,
        method: str,
        validation: bool,
        seeds: int = len(SEEDS),
        cv: bool = False,
    ) -> bool:
        """Whether the part exists, with the current grid and solver, and has all that is asked."""
        if not self.has(path, cell, method):
            return False
        file = self.file(path, cell, method)
        if "asked" not in pq.read_schema(file).names:
            return False
        made = json.loads(pd.read_parquet(file, columns=["asked"])["asked"].iloc[0])
        wanted = json.loads(question(path, cell, method, validation, seeds, cv))
        return (
            all(made.get(name) == wanted[name] for name in set(wanted) - set(MORE))
            and set(wanted["seeds"]) <= set(made["seeds"])
            and wanted["validation"] <= made["validation"]
            and wanted["folds"] <= made.get("folds", 0)
        )

    def write(
        self,
        path: str,
        cell: Cell,
        method: str,
        validation: bool,
        table: pd.DataFrame,
        seconds: float,
        seeds: int = len(SEEDS),
        cv: bool = False,
    ) -> None:
        """Store a finished part, with its settings and the machine."""
        table = table.assign(
            asked=question(path, cell, method, validation, seeds, cv),
            made_by=json.dumps(machine()),
            seconds=seconds,
        )
        file = self.file(path, cell, method)
        write_atomic(file, table.to_parquet(index=False, compression="zstd"))
        self._read.pop(file, None)
        self._made.clear()

    def read(self, path: str, cell: Cell, method: str) -> pd.DataFrame:
        """A finished part, as it was computed."""
        file = self.file(path, cell, method)
        if file not in self._read:
            self._read[file] = pd.read_parquet(file)
        return self._read[file]

    def models(self, path: str, cell: Cell, method: str) -> pd.DataFrame:
        """A finished part in which lost trainings have no figures.

        What is stored once for both paths has the seeds of this path, where there are fewer.
        """
        key = path, cell, method
        if key not in self._made:
            table = self.read(path, cell, method)
            if home_of(path, method) != path and self.has(path, cell, "fedfair"):
                table = table[table["seed"].isin(self.read(path, cell, "fedfair")["seed"])]
            classes = 2 if cell.study is None else cell.study.classes
            self._made[key] = without_lost(table, self.optimum(path, cell, method), classes)
        return self._made[key]

    def chosen(self, path: str, cell: Cell, method: str, selection: str) -> pd.DataFrame:
        """The models of the settings that a selection chooses, on the test rows."""
        key = path, cell, method, selection
        if key not in self._made:
            self._made[key] = chosen(self.models(path, cell, method), selection)
        return self._made[key]

    def optimum(self, path: str, cell: Cell, method: str) -> pd.DataFrame | None:
        """For a part of AGP's steps, the same problem's solved exactly, or None."""
        same = "fedavg" if method == "fedavg-local" else method if path == "agp" else ""
        exact = same and cell.model == "lr" and self.has("fast", cell, same)
        return self.read("fast", cell, same) if exact else None

    def record(self, path: str, command: str, parts: int, seconds: float) -> None:
        """Log that a command computed parts: how many, how long and on which machine."""
        run = {"command": command, "parts": parts, "minutes": round(seconds / 60, 2)} | machine()
        text = json.dumps([*self.runs(path), run], indent=1) + "\n"
        write_atomic(self._log(path), text.encode())

    def runs(self, path: str) -> list[dict[str, Any]]:
        """The commands that computed parts of this path, oldest first."""
        if not self._log(path).is_file():
            return []
        runs: list[dict[str, Any]] = json.loads(self._log(path).read_text())
        return runs

    def made(self, path: str) -> Made:
        """The number of this path's parts, their total time and the machines."""
        files = sorted((self.folder / "parts" / path).glob("*/*.parquet"))
        found = [pd.read_parquet(file, columns=["made_by", "seconds"]).iloc[0] for file in files]
        kinds = sorted({str(one["made_by"]) for one in found})
        seconds = sum(float(one["seconds"]) for one in found)
        return Made(len(files), seconds, [describe(json.loads(kind)) for kind in kinds])

    def _log(self, path: str) -> Path:
        return self.folder / "parts" / path / "runs.json"


def question(
    path: str,
    cell: Cell,
    method: str,
    validation: bool,
    seeds: int = len(SEEDS),
    cv: bool = False,
) -> str:
    """The settings of a part as JSON; a stored part with other settings is computed again."""
    solver, rounds = solver_of(home_of(path, method), cell, method)
    known = METHODS.get(method)
    revision = 0 if known is None else known.revision
    return json.dumps(
        {
            "settings": settings(cell, method),
            "seeds": list(range(seeds)),
            "folds": FOLDS if cv and cross_validated(cell, method) else 0,
            "solver": repr(solver),
            "rounds": rounds,
            "validation": validation,
            "kept": KEPT,
            **({"work": [LOCAL.epochs, LOCAL.batch]} if method == "fedavg-local" else {}),
            # Parts of methods that never changed do not have it.
            **({"revision": revision} if revision else {}),
            **({} if cell.own is None else {"own": _own_question(cell)}),
        }
    )


def _own_question(cell: Cell) -> list[str]:
    """The options of an own table, wherever its files lie, and the digest of these."""
    options = replace(cell.options(0), data=cell.dataset, data_dir=None, schema=None)
    return [repr(options), "" if cell.study is None else cell.study.digest]


def cross_validated(cell: Cell, method: str) -> bool:
    """Logistic regressions with a setting to choose; networks would take hours."""
    return cell.model == "lr" and len(settings(cell, method)) > 1


def machine() -> dict[str, Any]:
    """Version and kind of machine, without its name."""
    device = jax.devices()[0]
    return {
        "fairsilo": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": device.device_kind if device.platform != "cpu" else platform.machine(),
        "platform": device.platform,
        "cores": cores(),
    }


def describe(made: dict[str, Any]) -> str:
    """Version and machine in words."""
    count = f", {made['cores']} cores" if "cores" in made else ""
    return (
        f"fairsilo {made['fairsilo']}, jax {made['jax']}, python {made['python']}; "
        f"{made['platform']} {made['device']}{count}"
    )


def cores() -> int:
    """The number of cores that this process may use, which `taskset` and containers limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
