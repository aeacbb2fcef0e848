"""Checks of single options: a name that is known, a seed, what a training follows."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import TYPE_CHECKING

from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS

if TYPE_CHECKING:
    from fairsilo.run.options import Options

LARGEST_SEED = 2**32 - 1
FEWEST_ROUNDS = 4
"""After so many rounds training may stop early, and after every doubling."""


def check_after(options: Options) -> None:
    """Validate what a method that repairs follows."""
    if options.after is None:
        return
    repairs = [name for name, one in METHODS.items() if one.repair is not None]
    choose("after", options.after, [name for name in METHODS if name not in repairs])
    if options.method not in repairs:
        raise FairSiloError(
            f"`after` is for methods that repair a trained model, {', '.join(repairs)}, "
            f"and not for {options.method}: leave it out"
        )
    if METHODS[options.method].decides and METHODS[options.after].own_models:
        raise FairSiloError(
            f"method {options.method} is for one model and {options.after} has one for every "
            "client: give another `after`"
        )


def check_start(options: Options) -> None:
    """Validate that there is one model to start from."""
    if options.start_from is None:
        return
    if METHODS[options.after or options.method].alone:
        raise FairSiloError(
            f"`start_from` is one model, and {options.method} trains one for every client: leave "
            "it out"
        )
    if options.binned:
        raise FairSiloError(
            f"`start_from` is not for `model` {options.model}, whose steps are found anew from "
            "the rows: leave it out"
        )


def check_stopping(options: Options) -> None:
    """Validate that training can stop early."""
    if not options.early_stopping:
        return
    trains = METHODS[options.after or options.method]
    if not trains.penalised or trains.estimator is not None or trains.own_solver:
        raise FairSiloError(
            f"`early_stopping` is for methods with one objective over all clients and not for "
            f"{trains.name}: leave it out"
        )
    if options.rounds is not None and options.rounds < 2 * FEWEST_ROUNDS:
        raise FairSiloError(
            f"`early_stopping` compares {FEWEST_ROUNDS} rounds with twice as many, and `rounds` is "
            f"{options.rounds}: give at least {2 * FEWEST_ROUNDS}, or leave one of them out"
        )
    if options.binned:
        raise FairSiloError(
            f"`early_stopping` is not for `model` {options.model}, which has penalties instead: "
            "leave it out"
        )
    if options.dp_epsilon is not None or options.target_confidence is not None:
        other = "dp_epsilon" if options.dp_epsilon is not None else "target_confidence"
        raise FairSiloError(
            f"`early_stopping` looks at rows set aside, which `{other}` does not allow: give "
            "`rounds` instead"
        )


def check_seed(seed: int) -> None:
    """Refuse a seed that some generator of random numbers does not take."""
    if not 0 <= seed <= LARGEST_SEED:
        raise FairSiloError(f"`seed` is {seed}: give a whole number from 0 to {LARGEST_SEED}")


def choose(option: str, value: str, known: Collection[str]) -> None:
    """Refuse a value that is not one of the known ones, and name the nearest."""
    if value in known:
        return
    known = tuple(known)
    near = difflib.get_close_matches(value, known, n=1)
    hint = f", perhaps {near[0]!r}" if near else ""
    raise FairSiloError(f"`{option}` {value!r} is unknown: choose one of {', '.join(known)}{hint}")
