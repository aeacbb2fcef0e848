"""What is built has all that the package needs, and nothing of the developer's."""

from __future__ import annotations

import email
import tarfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

import pytest

from fairsilo import __version__
from tests.package.conftest import ROOT

PRIVATE = {".venv", ".bench", "shared", "runs", "dist", "build", "mlruns", ".git"}
CACHES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
DATA = {
    "fairsilo/py.typed",
    "fairsilo/data/adult/ATTRIBUTION.md",
    "fairsilo/data/adult/adult.data.xz",
    "fairsilo/data/adult/adult.test.xz",
    "fairsilo/experiment/paper_tables.csv",
    "fairsilo/report/assets/report.css",
    "fairsilo/report/assets/report.js",
}
"""What no import would miss, by its path in the wheel."""


def source(folder: str) -> set[str]:
    """The files below a folder of the repository, by their path from its root."""
    files = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in files if not CACHES & {*path.parts}}


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, bytes]:
    (path,) = built.glob("*.whl")
    assert path.name == f"fairsilo-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [PurePosixPath(one.name) for one in archive.getmembers() if one.isfile()]
    assert {name.parts[0] for name in names} == {f"fairsilo-{__version__}"}
    return {str(name.relative_to(name.parts[0])) for name in names}


@pytest.mark.process
def test_the_wheel_is_the_package_and_its_metadata(wheel: dict[str, bytes]) -> None:
    inside = {name for name in wheel if not name.startswith(f"fairsilo-{__version__}.dist-info/")}
    assert inside == {path.removeprefix("src/") for path in source("src/fairsilo")}
    assert inside >= DATA
    kinds = Counter(PurePosixPath(name).suffix for name in inside)
    assert set(kinds) == {".py", ".typed", ".md", ".xz", ".csv", ".css", ".js"}


@pytest.mark.process
def test_the_metadata_says_what_the_project_says(wheel: dict[str, bytes]) -> None:
    info = f"fairsilo-{__version__}.dist-info"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = email.message_from_bytes(wheel[f"{info}/METADATA"])
    assert said["Version"] == __version__
    assert said["Requires-Python"] == project["requires-python"]
    assert set(said.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    plain = [one for one in said.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert sorted(plain) == sorted(project["dependencies"])
    assert b"fairsilo = fairsilo.cli:main" in wheel[f"{info}/entry_points.txt"]
    for path in project["license-files"]:
        assert wheel[f"{info}/licenses/{path}"] == (ROOT / path).read_bytes()


@pytest.mark.process
def test_the_sdist_has_all_that_make_needs(sdist: set[str]) -> None:
    for folder in ("src", "tests", "docs", "examples", "benchmarks", "experiments/results"):
        assert source(folder) <= sdist, folder
    for name in (
        "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
        "SECURITY.md", "mkdocs.yml", "pyproject.toml",
    ):  # fmt: skip
        assert name in sdist


@pytest.mark.process
def test_nothing_of_the_developers_is_in_it(sdist: set[str]) -> None:
    for name in sdist:
        parts = PurePosixPath(name).parts
        assert parts[0] not in PRIVATE, name
        assert not CACHES & {*parts}, name
