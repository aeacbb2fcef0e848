"""Checks of the options of a target in rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS
from fairsilo.method import METHODS

if TYPE_CHECKING:
    from fairsilo.run.options import Options


def check_limits(options: Options) -> None:
    """Refuse what does not go with a target in rates, or with limits of single pairs."""
    method = METHODS[options.method]
    if options.target_deo is not None and not method.targets:
        option, able = "`target_deo`", [name for name, one in METHODS.items() if one.targets]
    elif options.epsilons and (method.decides or not method.targets):
        option = "`epsilon` for single pairs"
        able = [name for name, one in METHODS.items() if one.targets and not one.decides]
    else:
        option, able = "", []
    if option:
        raise FairSiloError(
            f"{option} is for `method` {' or '.join(able)} and not {options.method}: leave it out"
        )
    if options.target_deo is None:
        if options.target_confidence is not None:
            raise FairSiloError(
                "`target_confidence` is of a target in rates: give `target_deo`, such as 0.05"
            )
        return
    if method.decides and (options.target_confidence is not None or options.target_by != "proxy"):
        what = "target_by" if options.target_confidence is None else "target_confidence"
        raise FairSiloError(
            f"`{what}` is for training to a target and not for {options.method}, which decides by "
            "one: leave it out"
        )
    _check_confidence(options)
    check_target(options.target_deo)
    if options.epsilons:
        raise FairSiloError("give `target_deo` or `epsilon` for single pairs, not both")
    if not NOTIONS[options.notion].rates:
        raise FairSiloError(
            f"`target_deo` is a difference of rates and `notion` {options.notion} has none: use "
            "`epsilon`, or another notion"
        )


def _check_confidence(options: Options) -> None:
    confidence = options.target_confidence
    if confidence is None:
        return
    if not 0.5 <= confidence < 1:
        raise FairSiloError(
            f"`target_confidence` is {confidence}: give a number from 0.5 to below 1, such as 0.9"
        )
    if options.penalty == "validation":
        raise FairSiloError(
            "`penalty` validation uses up the rows that `target_confidence` tests on: give "
            "`penalty` a number, or auto"
        )
    if options.target_by == "search":
        raise FairSiloError(
            "`target_by` search uses up the rows that `target_confidence` tests on: use "
            "`target_by` proxy"
        )


def check_target(target: float | None) -> None:
    """Refuse what is no difference of rates."""
    if target is not None and not 0 <= target < 1:
        raise FairSiloError(f"`target_deo` is {target}: give a difference of rates, such as 0.02")
