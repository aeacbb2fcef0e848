"""Every command that a page or a script of a working folder names exists, with its options."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fairsilo.cli import app
from fairsilo.network.ops import texts
from tests.docs.pages import lines_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INLINE = re.compile(r"`(fairsilo [^`#]*)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def commands(text: str) -> Iterator[str]:
    """The commands in a text: at the beginning of a line of code, or in backticks."""
    yield from lines_of(text)
    for found in INLINE.findall(re.sub(r"\\\n\s*", " ", text)):
        yield " ".join(found.split())


@functools.cache
def program() -> Any:
    """All commands; gathering them takes a while."""
    return get_command(app)


def wrong(line: str) -> str:
    """What does not exist in a command; nothing where all does, or it is no command."""
    command = program()
    words = line.split()[1:]
    path = ["fairsilo"]
    while words and getattr(command, "commands", None):
        name = words.pop(0).strip(",.;:)")
        if name not in command.commands:
            return f"{' '.join(path)} {name}"
        command = command.commands[name]
        path.append(name)
    known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    return " ".join(flag for flag in FLAG.findall(line) if flag not in {*known, "--help"})


def is_command(line: str) -> bool:
    """Whether a line that begins with the program's name calls it."""
    words = line.split()
    return len(words) > 1 and words[1] in program().commands


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist(page: Path) -> None:
    found = [line for line in commands(page.read_text()) if is_command(line)]
    assert [(line, wrong(line)) for line in found if wrong(line)] == []


@pytest.mark.slow
def test_the_commands_of_a_working_folder_exist() -> None:
    starts = [texts.START_SILO.replace("@role@", role) for role in ("silo", "witness")]
    found = [
        line
        for text in (texts.README, *starts, texts.START_SUPERLINK, texts.REGISTER)
        for line in commands(text)
        if is_command(line)
    ]
    assert len(found) > 8
    assert [(line, wrong(line)) for line in found if wrong(line)] == []


def test_what_does_not_exist_is_found() -> None:
    page = "see `fairsilo flower\nnothing`\n\n    fairsilo train --sed 1\n    fairsilo data\n"
    assert [wrong(line) for line in commands(page)] == ["--sed", "", "fairsilo flower nothing"]
