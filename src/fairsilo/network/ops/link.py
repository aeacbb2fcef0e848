"""Flower's SuperLink, in a process that does not outlive the command that started it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.internals import expect_whole, keep_in_memory, tidy_seldom
from fairsilo.network.ops.layers import thin_layers
from fairsilo.network.ops.parent import end_with_parent
from fairsilo.network.ops.room import limit_silos
from fairsilo.network.ops.whole import serve_superlink

COMMAND = "flower-superlink"


def prepare() -> None:
    """Change what `internals` names in Flower: where that is not as expected, it stays, and a
    sentence says what follows."""
    _attempt(_hasten, "rounds take longer until then")
    # Last, so that it sees a request before all others; by itself, as it keeps silos in bounds.
    _attempt(limit_silos, "what one silo leaves in the SuperLink's memory has no limit until then")


def _hasten() -> None:
    expect_whole()
    serve_superlink()
    keep_in_memory()
    tidy_seldom()


def _attempt(change: Callable[[], None], follows: str) -> None:
    try:
        change()
    except FairSiloError as error:
        print(f"fairsilo: {error}; {follows}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the SuperLink in this process; its arguments are those of `flower-superlink`."""
    end_with_parent()
    thin_layers()
    prepare()
    sys.argv[0] = COMMAND
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    entry.load()()


if __name__ == "__main__":
    main()
