"""Flower's SuperLink, in a process that does not outlive the command that started it."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

from fairsilo.network.ops.parent import end_with_parent

COMMAND = "flower-superlink"


def main() -> None:
    """Run the SuperLink in this process; its arguments are those of `flower-superlink`."""
    end_with_parent()
    sys.argv[0] = COMMAND
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    entry.load()()


if __name__ == "__main__":
    main()
