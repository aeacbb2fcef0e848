"""What a training says to Python's `logging`, under the name "fairsilo": silent by default.

DEBUG     every round
INFO      how training ended, and the figures on the test rows
WARNING   what a command prints as a note, and that a model is of little use
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from fairsilo.solver import Record, Watch

LOG = logging.getLogger("fairsilo")
LOG.addHandler(logging.NullHandler())
_silent: ContextVar[bool] = ContextVar("silent", default=False)
LOG.addFilter(lambda record: not _silent.get())


@contextmanager
def silent() -> Iterator[None]:
    """Log nothing of a training that serves another one."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def logged(watch: Watch | None) -> Watch | None:
    """A watch that also logs each round; the same watch where nobody listens."""
    if not LOG.isEnabledFor(logging.DEBUG):
        return watch

    def both(rounds: int, record: Record) -> None:
        d = np.asarray(record.d)
        gap = f", largest |D| {np.abs(d).max():.5f}" if d.size else ""
        LOG.debug(
            "round %d: loss %.6f%s, residual %.1e",
            rounds, float(record.loss), gap, float(record.residual),
        )  # fmt: skip
        if watch is not None:
            watch(rounds, record)

    return both


def log_metrics(metrics: dict[str, Any]) -> None:
    """How training ended, the figures, and what is to be noted."""
    LOG.info("%s: %d rounds, %s", metrics["method"], metrics["rounds"], metrics["reason"])
    told = ((key, metrics["test"].get(key)) for key in ("accuracy", "fairness", "dgeo_pooled"))
    figures = ", ".join(f"{key} {value:.4f}" for key, value in told if value is not None)
    LOG.info("%d test rows: %s", metrics["test"]["rows"], figures)
    why = metrics.get("worth", {}).get("why")
    log_notes([*([] if why is None else [f"this model is {why}"]), *metrics["notes"]])


def log_notes(notes: Iterable[str]) -> None:
    """What a command prints as notes."""
    for note in notes:
        LOG.warning("%s", note)
