"""What weights of rows and classes cannot go with, among the options of a training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairsilo.data.weights import BALANCED, ClassWeights
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS

if TYPE_CHECKING:
    from fairsilo.run.options import Options


def class_weights_of(given: ClassWeights | None) -> ClassWeights | None:
    """The weights in a text such as "balanced" or "yes=3,no=1", or in pairs; checked."""
    from fairsilo.run.constraints import names_of

    if given is None or given == BALANCED:
        return given
    typed = given if isinstance(given, str) else None
    if isinstance(given, str):
        parts = [part.rpartition("=") for part in names_of("class_weight", given)]
        given = tuple((name.strip(), _number(value)) for name, _, value in parts)
    found = tuple((str(name), float(value)) for name, value in given)
    twice = len({name for name, _ in found}) < len(found)
    if twice or not all(name and 0 < value < math.inf for name, value in found):
        told = typed or ",".join(f"{name}={value:g}" for name, value in found)
        raise FairSiloError(
            f"`class_weight` {told} cannot be used: give {BALANCED}, or classes, each once, with "
            "a number above 0, such as yes=3,no=1"
        )
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_weights(options: Options) -> None:
    """Refuse what weights cannot go with."""
    for name in ("weight", "class_weight"):
        refused = [m for m in (options.method, options.after) if m and not METHODS[m].weighted]
        if getattr(options, name) is not None and refused:
            able = ", ".join(key for key, one in METHODS.items() if one.weighted)
            raise FairSiloError(
                f"`{name}` is for methods that take weights, {able}, and not for {refused[0]}: "
                "leave it out"
            )
    _check_maximum(options)
    if options.class_weight is not None and options.dp_epsilon is not None:
        raise FairSiloError(
            "`class_weight` needs sums of every class, for which `dp_epsilon` has no noise: leave "
            "one of them out"
        )
    if options.weight is None:
        return
    both = (options.label, options.client, options.split, *(options.group or "").split(","))
    if options.weight in both:
        raise FairSiloError(
            f"`weight` names the column {options.weight!r}, which is label, group, client or "
            "split: name a column of weights"
        )
    if options.target_confidence is not None:
        raise FairSiloError(
            "`target_confidence` is by an exact test, which counts rows and knows no weights: "
            "leave out `weight`, or give `target_deo` alone"
        )


def _check_maximum(options: Options) -> None:
    """The largest weight is declared where privacy needs it, and nowhere else."""
    most = options.maximum_weight
    if options.dp_epsilon is None or options.weight is None:
        if most is not None:
            raise FairSiloError(
                "`maximum_weight` is for `weight` with `dp_epsilon`: give both, or leave it out"
            )
        return
    if most is None:
        raise FairSiloError(
            "with `dp_epsilon` the largest weight must not be read off the rows: declare it as "
            "`maximum_weight`"
        )
    if not 0 < most < math.inf:
        raise FairSiloError(f"`maximum_weight` is {most}: give a number above 0, such as 10")
