"""What is said of a method or a notion stands in its own file: all others look at its fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairsilo
from fairsilo.fairness import NOTIONS
from fairsilo.method import METHODS

PACKAGE = Path(fairsilo.__file__).parent
HOMES = {name: f"method/{name}.py" for name in METHODS} | {
    name: f"fairness/{name.replace('-', '_')}.py" for name in NOTIONS
}
FREE = ("cli", "experiment")
"""The command line spells names out in its help; the paper's experiments are about its methods."""
ALLOWED: set[tuple[str, str]] = set()


def literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """All strings of a file but those that stand for themselves, which are documentation."""
    said = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node


def elsewhere(folder: Path) -> list[str]:
    """Where a file names a method or a notion that is not its own."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).as_posix()
        if place.split("/")[0] in FREE:
            continue
        for node in literals(ast.parse(path.read_text())):
            name = str(node.value)
            if HOMES.get(name, place) != place and (place, name) not in ALLOWED:
                found.append(f"{place}:{node.lineno}: {name!r}")
    return found


@pytest.mark.slow
def test_a_name_stands_in_its_own_file_only() -> None:
    assert elsewhere(PACKAGE) == []


def test_every_name_has_its_file() -> None:
    for name, place in HOMES.items():
        found = {node.value for node in literals(ast.parse((PACKAGE / place).read_text()))}
        assert name in found, place


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ('if method == "fedavg":\n    pass', True),
        ('LIMITS = {"bounded-loss": 1}', True),
        ('def train(method: str = "fedfair") -> None: ...', True),
        ('"""fedavg"""', False),
        ('x = 1\n"""fedavg"""', False),
        ('text = "use --method fedavg"', False),
    ],
)
def test_what_counts_as_naming(code: str, caught: bool, tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(code)
    assert bool(elsewhere(tmp_path)) is caught
