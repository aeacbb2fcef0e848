"""Flower's SuperNode with shorter waits; with its own ones where its inside has changed."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from importlib.metadata import entry_points

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.internals import expect_whole, shorten_node
from fairsilo.network.ops.keys import for_flower
from fairsilo.network.ops.layers import thin_layers
from fairsilo.network.ops.parent import end_with_parent
from fairsilo.network.ops.wake import own_end
from fairsilo.network.ops.whole import serve_supernode

COMMAND = "flower-supernode"
KEY = "--auth-supernode-private-key"
REJECTED = 5
"""The exit code of a node that the SuperLink does not take: its key is not registered there."""
EXPIRED = 6
"""That of one that found the SuperLink's certificate, or the authority's, to have ended."""
HEARD = {"Failed to activate SuperNode": REJECTED, "certificate has expired": EXPIRED}
"""Words of Flower's log, and the exit code for them."""
CONTACT = "FAIRSILO_CONTACT"
"""The variable with the file that is touched when the SuperLink answered."""


class Heard(logging.Handler):
    """Hears from Flower's log why the node ends, which its exit code does not tell."""

    code = 0

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the log."""
        told = record.getMessage()
        self.code = next((code for words, code in HEARD.items() if words in told), self.code)


def main() -> None:
    """Run the SuperNode in this process; its arguments are those of `flower-supernode`."""
    end_with_parent()
    thin_layers()
    heard = Heard()
    logging.getLogger("flwr").addHandler(heard)
    try:
        shorten_node(os.environ.get(CONTACT), own_end())
        expect_whole()
        serve_supernode()
    except FairSiloError as error:
        slower = "rounds take seconds longer until then"
        print(f"fairsilo: {error}; {slower}", file=sys.stderr, flush=True)
    sys.argv[0] = COMMAND
    if KEY in sys.argv:
        place = sys.argv.index(KEY) + 1
        sys.argv[place] = for_flower(sys.argv[place])
    (entry,) = entry_points(group="console_scripts", name=COMMAND)
    try:
        entry.load()()
    except SystemExit:
        if heard.code:
            sys.exit(heard.code)
        raise
    except Exception:
        traceback.print_exc()
    # Its loop ended by an error, and a thread of its API would keep the process.
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
