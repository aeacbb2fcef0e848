"""Flower's SuperNode with shorter waits; with its own ones where its inside has changed."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import entry_points

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.internals import shorten_node
from fairsilo.network.ops.parent import end_with_parent

COMMAND = "flower-supernode"


def main() -> None:
    """Run the SuperNode in this process; its arguments are those of `flower-supernode`."""
    end_with_parent()
    try:
        shorten_node()
    except FairSiloError as error:
        slower = "rounds take seconds longer until then"
        print(f"fairsilo: {error}; {slower}", file=sys.stderr, flush=True)
    sys.argv[0] = COMMAND
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    try:
        entry.load()()
    except Exception:
        traceback.print_exc()
    # Its loop ended by an error, and a thread of its API would keep the process.
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
