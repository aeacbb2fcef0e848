"""Run the Python and the commands on a page of the documentation and compare their output.

    ```python             is run; all blocks of a page share one namespace
    ```text               directly below a python block: the expected output of that block
    ```console            lines `$ fairsilo ...` are run; the lines below are the expected output

`...` in expected output matches anything; white space is ignored.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.cli.flags import as_typed
from fairsilo.errors import FairSiloError

FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USAGE = 2
"""The exit code where there is no such command or option."""
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Step:
    """A block to run and its expected output, or None if the page shows none."""

    kind: str
    source: str
    shown: str | None


def steps(text: str) -> Iterator[Step]:
    """The runnable blocks of a page, in order."""
    found = list(FENCE.finditer(text))
    for k, block in enumerate(found):
        kind, body = block.groups()
        if kind == "python":
            after = found[k + 1] if k + 1 < len(found) else None
            between = "" if after is None else text[block.end() : after.start()]
            output = after and after[1] == "text" and not between.strip()
            yield Step(kind, body, after[2] if after and output else None)
        elif kind == "console":
            for one in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = one.replace("\\\n", " ").partition("\n")
                yield Step(kind, command, shown or None)


LINE = re.compile(r"^[ \t]*(?:\$ |exec )?(fairsilo [^#\n`]*)", re.MULTILINE)


def section(text: str, title: str) -> str:
    """What stands under a heading of the second level."""
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def lines_of(text: str) -> list[str]:
    """The commands at the beginning of a line of code, without their remarks."""
    code = re.sub(r"\\\n\s*", " ", text)
    return [" ".join(found.split()) for found in LINE.findall(code)]


def shown(text: str) -> list[str]:
    """The commands of a page that are not in its runnable blocks."""
    rest = FENCE.sub(
        lambda block: "" if block[1] in ("console", "python", "text") else block[0], text
    )
    return lines_of(rest)


PROGRAMS = ("flwr", "python", "pip", "docker", "make", "cd")
"""Other programs that pages call."""
INDENTED = re.compile(r"(?:^|\n)\n((?:(?: {4}|\t)[^\n]*\n)+)")


def others(text: str) -> list[str]:
    """The lines of code that call other programs: all of a shell's blocks but fairsilo's own, and
    those of indented code that begin with one; without their remarks."""
    found = []
    for kind, body in FENCE.findall(text):
        if kind == "sh":
            found += re.sub(r"\\\n\s*", " ", body).splitlines()
    for body in INDENTED.findall(FENCE.sub("", text)):
        lines = (line.strip() for line in re.sub(r"\\\n\s*", " ", body).splitlines())
        found += [line for line in lines if line.startswith((*(f"{p} " for p in PROGRAMS), "./"))]
    calls = (" ".join(line.partition(" #")[0].split()) for line in found)
    return [call for call in calls if call and not call.startswith("fairsilo ")]


def run(step: Step, names: dict[str, Any]) -> str:
    """Run the step and return its output."""
    if step.kind == "python":
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(step.source, "page", "exec"), names)
        return printed.getvalue()
    program, *arguments = shlex.split(step.source, comments=True)
    assert program == "fairsilo", f"only fairsilo runs here: {step.source}"
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, FairSiloError):
        return f"fairsilo: {as_typed(str(done.exception))}\n"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code != USAGE, f"{step.source}\n{done.output}"
    return done.stdout


def matches(shown: str, printed: str) -> bool:
    """Whether the output is as shown on the page."""
    return doctest.OutputChecker().check_output(shown, printed, LOOSELY)


def namespace() -> dict[str, Any]:
    """Names for the blocks of a page, in a module that dataclasses find."""
    sys.modules["page"] = ModuleType("page")
    return vars(sys.modules["page"])


if __name__ == "__main__":
    names = namespace()
    for step in steps(Path(sys.argv[1]).read_text()):
        printed = run(step, names)
        mark = "" if step.shown is None or matches(step.shown, printed) else "  <-- DIFFERS"
        print(f"--- {step.source.strip().splitlines()[0]}{mark}\n{printed}")
