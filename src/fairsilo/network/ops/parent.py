"""A child process that does not outlive its parent, however that ends, and what its end means."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

GRACE = 5.0
"""Seconds that the child has to end by itself."""
HOPELESS = 2
"""The exit code of a worker that would fail again: it is not started anew."""
STUCK = 3
"""That of one whose node is to be started anew, too."""


def end_with_parent() -> None:
    """End this process when the other end of its standard input is gone."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
