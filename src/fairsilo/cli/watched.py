"""`fairsilo train --watch`: a training that writes down how it goes, and the page that shows it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any, Self

from fairsilo import __version__
from fairsilo.cli.flags import as_typed
from fairsilo.method import METHODS
from fairsilo.progress import PROGRESS, Progress, locked, round_event
from fairsilo.report.live import watching
from fairsilo.run import Options, Run
from fairsilo.solver import Record, Watch

PAUSE = 0.2
"""At most one round in so many seconds is written: a round may take microseconds."""


class Told:
    """Tells the progress file in the run folder of a training in this process."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder, self.options = folder, options
        self.said = 0.0
        self.last: tuple[int, Any] = (0, None)
        self.open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.open.enter_context(locked(self.folder, "command"))
        self.progress = Progress(self.folder / PROGRESS, fresh=True)
        options = self.options
        limited = METHODS[options.method].limited
        about = {
            "what": METHODS[options.method].title,
            "federation": Path(options.data).name,
            "notion": options.notion,
            "model": options.model,
            "limit": options.epsilon if limited and options.target_deo is None else None,
            "dp": options.dp_epsilon,
            "fairsilo": __version__,
        }
        start = {"event": "started", "pid": os.getpid(), "phase": "set-up", "about": about}
        self.progress.say(start)
        page = self.open.enter_context(watching(self.folder / PROGRESS, words=as_typed))
        print(f"{page.address} shows this training", flush=True)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            self.progress.say({"event": how, "why": str(error) or type(error).__name__})
        self.open.close()

    def also(self, watch: Watch) -> Watch:
        """Show a round as before, and write it down."""

        def told(number: int, record: Record) -> None:
            watch(number, record)
            self.last = (number, record)
            if number == 1 or time.monotonic() - self.said > PAUSE:
                self.said = time.monotonic()
                self._say(number, record)

        return told

    def stay(self, run: Run) -> None:
        """Tell of the end, and keep the page until Control-C."""
        if self.last[1] is not None:
            self._say(*self.last)
        self.progress.say({"event": "finished", "notes": list(run.metrics["notes"])})
        with contextlib.suppress(KeyboardInterrupt):
            print("the page stays until Control-C", flush=True)
            threading.Event().wait()

    def _say(self, number: int, record: Record) -> None:
        self.progress.say({**round_event(number, record), "phase": "rounds"})
