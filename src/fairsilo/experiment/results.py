"""The results folder: one file per cell and method, so that nothing is computed twice."""

from __future__ import annotations

import io
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fairsilo import __version__
from fairsilo.compute import jax
from fairsilo.data import write_atomic
from fairsilo.experiment.grid import Cell


@dataclass(frozen=True)
class Results:
    """Tidy tables under `folder/path/cell/method.parquet`."""

    folder: Path

    def file(self, path: str, cell: Cell, method: str) -> Path:
        """Where a part lies."""
        return self.folder / "parts" / path / cell.name / f"{method}.parquet"

    def has(self, path: str, cell: Cell, method: str) -> bool:
        """Whether the part is finished."""
        return self.file(path, cell, method).is_file()

    def write(
        self, path: str, cell: Cell, method: str, table: pd.DataFrame, seconds: float
    ) -> None:
        """Keep a finished part, with what made it."""
        table = table.assign(made_by=json.dumps(machine()), seconds=seconds)
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False, compression="zstd")
        write_atomic(self.file(path, cell, method), buffer.getvalue())

    def read(self, path: str, cell: Cell, method: str) -> pd.DataFrame:
        """A finished part."""
        return pd.read_parquet(self.file(path, cell, method))


def machine() -> dict[str, Any]:
    """Version and kind of machine, nothing that names it."""
    device = jax.devices()[0]
    return {
        "fairsilo": __version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": device.device_kind if device.platform != "cpu" else platform.machine(),
        "platform": device.platform,
    }
