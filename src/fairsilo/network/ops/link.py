"""Flower's SuperLink, in a process that does not outlive the command that started it."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.internals import expect_whole, keep_in_memory, tidy_seldom
from fairsilo.network.ops.layers import thin_layers
from fairsilo.network.ops.parent import end_with_parent
from fairsilo.network.ops.whole import serve_superlink

COMMAND = "flower-superlink"


def main() -> None:
    """Run the SuperLink in this process; its arguments are those of `flower-superlink`."""
    end_with_parent()
    thin_layers()
    try:
        expect_whole()
        serve_superlink()
        keep_in_memory()
        tidy_seldom()
    except FairSiloError as error:
        print(f"fairsilo: {error}; rounds take longer until then", file=sys.stderr, flush=True)
    sys.argv[0] = COMMAND
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    entry.load()()


if __name__ == "__main__":
    main()
