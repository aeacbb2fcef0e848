"""Checks of the options of local epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.question.base import Work

if TYPE_CHECKING:
    from fairsilo.run.options import Options

SOLVER = "agp"
"""The one solver whose step is an average of models."""


def work_of(options: Options) -> Work | None:
    """What clients do by themselves in a round; None: nothing but one step."""
    if options.local_epochs is None and options.batch is None:
        return None
    return Work(options.local_epochs or 1, options.batch)


def check_local(options: Options) -> None:
    """Refuse what local epochs do not go with."""
    if work_of(options) is None:
        return
    for name in ("local_epochs", "batch"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise FairSiloError(f"`{name}` is {value}: give at least 1")
    trains = METHODS[options.after or options.method]
    if not trains.works:
        able = " and ".join(name for name, one in METHODS.items() if one.works)
        raise FairSiloError(
            f"`local_epochs` and `batch` are for {able} and not for {trains.name}: leave them out"
        )
    if options.solver_name not in (None, SOLVER):
        raise FairSiloError(
            f"`local_epochs` and `batch` are for `solver` {SOLVER} and not for "
            f"{options.solver_name}: leave them out"
        )
    if options.target_deo is not None and not METHODS[options.method].decides:
        raise FairSiloError(
            "`local_epochs` and `batch` go with a limit on losses: give `epsilon` instead of "
            "`target_deo`"
        )
    if options.dp_epsilon is not None:
        raise FairSiloError(
            "`local_epochs` and `batch` have no differential privacy: leave out `dp_epsilon`, or "
            "leave them out"
        )
