"""The core names settings, in backticks; only the command line knows how they are typed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairsilo
from fairsilo.cli.flags import as_typed, flags
from fairsilo.errors import FairSiloError
from fairsilo.run.options import Options

PACKAGE = Path(fairsilo.__file__).parent
FLAG, COMMAND, NAMED = (
    re.compile(r"(?<![\w-])--[a-z{]"), re.compile(r"`fairsilo [^`]*`"), re.compile(r"`([a-z_]+)`")
)  # fmt: skip
TAKE_A_NAME = ("choose", "names_of", "one_or_more")
"""Functions whose first argument is a setting's name, which their sentences put in backticks."""
COMMANDS = {
    "network/ops/deploy.py": "systemd units and compose files, which call commands",
    "network/ops/texts.py": "scripts and a README for operators, who type what they read",
    "experiment/markdown.py": "the command that made a table, to be typed again",
    "run/command.py": "the command that made a run, to be typed again",
}
ARGUMENTS = {
    "network/ops/launch.py": "starts the SuperLink and silos",
    "network/ops/node.py": "is started by program.py, and becomes Flower's node",
    "network/ops/program.py": "starts a silo's node and worker",
    "network/ops/superlink.py": "starts Flower's SuperLink",
    "network/ops/worker.py": "is started by program.py",
}
"""A flag alone, without a sentence, is an argument of a program that is started there."""


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All strings of a file, documentation too; what an f-string fills in is {}."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.lineno, node.value


def files(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).as_posix()
        if not place.startswith("cli/"):
            yield place, ast.parse(path.read_text())


def flags_in(folder: Path) -> list[str]:
    """Where the core says a flag."""
    return [
        f"{place}:{line}: {text}"
        for place, tree in files(folder)
        if place not in COMMANDS
        for line, text in sentences(tree)
        if FLAG.search(COMMAND.sub("", text))
        and not (place in ARGUMENTS and re.fullmatch(r"--[a-z-]+", text))
    ]


def named_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Every setting that the core names, and where; documentation may name other things."""
    for place, tree in files(folder):
        said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        documented = {one.value for one in said if isinstance(one, ast.Constant)}
        for line, text in sentences(tree):
            if text not in documented:
                yield from ((f"{place}:{line}", name) for name in NAMED.findall(text))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in TAKE_A_NAME:
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    yield f"{place}:{node.lineno}", str(first.value)


def test_the_core_does_not_know_the_command_line() -> None:
    assert flags_in(PACKAGE) == []


def test_the_exceptions_are_needed() -> None:
    for place in (*COMMANDS, *ARGUMENTS):
        texts = [text for _, text in sentences(ast.parse((PACKAGE / place).read_text()))]
        assert any(FLAG.search(text) for text in texts), place


@pytest.mark.slow
def test_every_setting_that_the_core_names_can_be_typed() -> None:
    known = {name for found, _ in flags() for name in NAMED.findall(found)}
    named = list(named_in(PACKAGE))
    assert len(named) > 150
    assert [f"{where}: {name}" for where, name in named if name not in known] == []


def test_a_setting_has_one_flag_in_all_commands() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for name, flag in flags():
        found[name].add(flag)
    assert {name: several for name, several in found.items() if len(several) > 1} == {}


@pytest.mark.parametrize(
    ("code", "typed", "names"),
    [
        ('raise FairSiloError(f"--seed is {seed}")', 1, []),
        ('raise FairSiloError(f"--{name} is missing")', 1, []),
        ('choose("--method", method, METHODS)', 1, ["--method"]),
        ('"""What --seed is."""', 1, []),
        ('text = f"{path}: see `fairsilo train --out`"', 0, []),
        ('text = f"{n} rows: lower `dp_epsilon`, -- or so -- a-b--c"', 0, ["dp_epsilon"]),
        ('"""What `seeed` is."""', 0, []),
        ('choose("seeed", seed, SEEDS)', 0, ["seeed"]),
    ],
)
def test_what_counts(code: str, typed: int, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(code)
    assert len(flags_in(tmp_path)) == typed
    assert [name for _, name in named_in(tmp_path)] == names


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("use `solver` newton", "use --solver newton"),
        ("raise `dp_epsilon` or lower `rounds`", "raise --dp-epsilon or lower --rounds"),
        ("with `secure_aggregation` off", "with --no-secure-aggregation"),
        ("`seeed` and `fairsilo flower init`", "`seeed` and `fairsilo flower init`"),
    ],
)
def test_as_typed(said: str, typed: str) -> None:
    assert as_typed(said) == typed


def test_python_reads_the_name_of_the_setting() -> None:
    with pytest.raises(FairSiloError, match=r"^`min_cell` is -1: give 0 or more rows"):
        Options(data="adult", min_cell=-1)
