"""The core names a setting `dp_epsilon`; the command line says --dp-epsilon."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairsilo.errors import FairSiloWarning


def as_typed(sentence: str) -> str:
    """A sentence of the core, every setting as it is typed; `recount` off becomes --no-recount."""
    for name, flag in flags() if "`" in sentence else ():
        sentence = sentence.replace(name, flag)
    return sentence


@contextmanager
def warnings_as_typed() -> Iterator[None]:
    """Print what the core warns of, every setting as it is typed."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FairSiloWarning)
        yield
    for text in dict.fromkeys(str(one.message) for one in told):
        print(f"fairsilo: warning: {as_typed(text)}", file=sys.stderr)


def flags() -> Iterator[tuple[str, str]]:
    """Every option of every command: how the core names it, and its flag."""
    from fairsilo.cli import program

    commands: list[Any] = [program()]
    for command in commands:  # it grows by the commands that are found
        commands += getattr(command, "commands", {}).values()
        for one in command.params:
            if one.param_type_name == "option":
                yield from ((f"`{one.name}` off", flag) for flag in one.secondary_opts)
                yield f"`{one.name}`", one.opts[0]
