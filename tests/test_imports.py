"""Packages import only from earlier layers of LAYERS."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import fairsilo

PACKAGE = Path(fairsilo.__file__).parent
LAYERS = [
    {"arrays", "errors", "extras"},
    {"compute"},
    {"numerics", "coded", "registry", "threshold"},
    {"secagg", "dp"},
    {"data", "partition", "model"},
    {"fairness"},
    {"solver"},
    {"sums", "progress"},
    {"evaluate"},
    {"predictor"},
    {"question"},
    {"engine"},
    {"method"},
    {"report"},
    {"run"},
    {"export"},
    {"estimator", "auditor"},
    {"network"},
    {"experiment"},
    {"cli"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
COMPUTE = (
    "model",
    "partition",
    "fairness",
    "solver",
    "sums",
    "evaluate",
    "predictor",
    "question",
    "engine",
    "method",
)


def imported(path: Path) -> set[str]:
    """The parts that a file names in an import, wherever in the file; `fairsilo` itself has only
    its version for them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.relative_to(PACKAGE)} imports by dots"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name.split(".")[1] for name in whole if name.startswith("fairsilo.")}
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fairsilo.")}
    return found - {"__version__"}


def test_every_part_is_in_the_order() -> None:
    parts = {p.stem for p in PACKAGE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert parts - {"__init__", "__pycache__", "py"} - set(RANK) == {"__main__"} & parts


@pytest.mark.slow
def test_imports_point_downwards() -> None:
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for other in imported(path) - {part}:
            assert RANK[other] < RANK[part], f"{path.relative_to(PACKAGE)} imports {other}"


@pytest.mark.process
def test_compute_parts_import_without_tables_and_forms() -> None:
    """So that they run where pydantic, fairlearn and pandas are not installed."""
    modules = "; ".join(f"import fairsilo.{part}" for part in COMPUTE)
    absent = dict.fromkeys(("pydantic", "fairlearn", "pandas", "plotly"))
    blocked = f"import sys; sys.modules.update({absent})"
    subprocess.run([sys.executable, "-c", f"{blocked}; {modules}"], check=True)


@pytest.mark.process
def test_a_silos_program_and_node_start_without_tables() -> None:
    """Only its worker reads one, and the two others start for every silo."""
    modules = "import fairsilo.network.ops.program, fairsilo.network.ops.node"
    blocked = "import sys; sys.modules['pandas'] = None"
    subprocess.run([sys.executable, "-c", f"{blocked}; {modules}"], check=True)


def test_all_names_of_data_are_found() -> None:
    import fairsilo.data

    assert all(getattr(fairsilo.data, name) is not None for name in fairsilo.data.__all__)


def test_every_package_that_is_imported_is_declared() -> None:
    """One that only another package brings may be gone tomorrow."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = itertools.chain(project["dependencies"], *extras)
    declared = {re.split(r"[\[<>=]", one)[0].lower().replace("_", "-") for one in wanted}
    made_by = metadata.packages_distributions()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            for name in {one.split(".")[0] for one in names} - {*sys.stdlib_module_names}:
                known = {one.lower().replace("_", "-") for one in made_by.get(name, [name])}
                assert name == "fairsilo" or known & declared, f"{path}: {name} is not declared"
