"""Imports point one way only, down the list of parts in the design."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fairsilo

PACKAGE = Path(fairsilo.__file__).parent
LAYERS = [
    {"arrays", "errors", "compute", "threshold"},
    {"privacy", "dp"},
    {"data", "partition", "model"},
    {"fairness"},
    {"solver"},
    {"engine"},
    {"method"},
    {"evaluate"},
    {"report"},
    {"run"},
    {"estimator", "export", "auditor"},
    {"flower"},
    {"experiment"},
    {"cli"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
COMPUTE = ("model", "partition", "fairness", "solver", "engine", "method", "evaluate")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairsilo."):
            found.add((node.module or "").split(".")[1])
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fairsilo.")}
    return found


def test_every_part_is_in_the_order() -> None:
    parts = {p.stem for p in PACKAGE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert parts - {"__init__", "__pycache__", "py"} - set(RANK) == {"__main__"} & parts


def test_imports_point_downwards() -> None:
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for other in imported(path) - {part}:
            assert RANK[other] < RANK[part] or {other, part} <= {"data", "partition"}, (
                f"{path.relative_to(PACKAGE)} imports {other}"
            )


@pytest.mark.process
def test_compute_parts_import_without_tables_and_forms() -> None:
    """So that they run where pydantic, fairlearn and pandas are not installed."""
    modules = "; ".join(f"import fairsilo.{part}" for part in COMPUTE)
    absent = dict.fromkeys(("pydantic", "fairlearn", "pandas"))
    blocked = f"import sys; sys.modules.update({absent})"
    subprocess.run([sys.executable, "-c", f"{blocked}; {modules}"], check=True)


@pytest.mark.process
def test_a_message_of_the_masks_loads_no_tables() -> None:
    """A silo answers every message in a new process; pandas would be half of what it costs."""
    heavy = {"jax", "pandas", "pyarrow", "scipy", "sklearn", "sqlalchemy"}
    modules = "sys, fairsilo.flower.client, fairsilo.flower.masked"
    code = f"import {modules}; print({heavy} & {{*sys.modules}})"
    found = subprocess.check_output([sys.executable, "-W", "ignore", "-c", code], text=True)
    assert found.strip() == "set()"


def test_all_names_of_data_are_found() -> None:
    import fairsilo.data

    assert all(getattr(fairsilo.data, name) is not None for name in fairsilo.data.__all__)
