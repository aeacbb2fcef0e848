"""The version is written down once, and the program says it without loading anything slow."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fairsilo
from tests.cli.conftest import Program

ROOT = Path(__file__).parents[2]
SLOW = {"flwr", "jax", "matplotlib", "pandas", "pydantic", "scipy", "sklearn"}


def test_version_is_printed_with_the_name(quick: Program) -> None:
    shown = quick("--version")
    assert shown.returncode == 0
    assert shown.stdout == f"fairsilo {fairsilo.__version__}\n"
    assert shown.stderr == ""


def test_version_comes_before_any_command(quick: Program) -> None:
    assert quick("--version", "train").stdout == f"fairsilo {fairsilo.__version__}\n"


def test_the_build_reads_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    named = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{fairsilo.__version__}"' in named.read_text()


def test_the_citation_names_the_same_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {fairsilo.__version__}" in lines


@pytest.mark.process
def test_version_loads_nothing_slow() -> None:
    code = f"import fairsilo.cli, sys; print({SLOW} & {{*sys.modules}})"
    found = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert found.strip() == "set()"
