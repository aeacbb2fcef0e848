"""What differential privacy cannot go with, among the options of a training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fairsilo.dp import Split
from fairsilo.dp.budget import LARGEST
from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS
from fairsilo.method import METHODS

if TYPE_CHECKING:
    from fairsilo.run.options import Options


def check_private(options: Options, dp_epsilon: float) -> None:
    """Refuse what differential privacy cannot go with."""
    if not 0 < dp_epsilon <= LARGEST:
        raise FairSiloError(
            f"`dp_epsilon` is {dp_epsilon}: give a number above 0 and at most {LARGEST:g}, "
            "such as 4; leave it out for training without differential privacy"
        )
    if not 0 < options.dp_delta < 1:
        raise FairSiloError(
            f"`dp_delta` is {options.dp_delta}: give a number between 0 and 1, far below one over "
            "the number of rows, such as 1e-5"
        )
    if not 0 < options.dp_clip < math.inf:
        raise FairSiloError(f"`dp_clip` is {options.dp_clip}: give a number above 0, such as 1")
    Split(*options.dp_split)
    if not METHODS[options.method].private:
        private = ", ".join(name for name, one in METHODS.items() if one.private)
        raise FairSiloError(
            f"`method` {options.method} has no differential privacy: use one of {private}, or "
            "leave out `dp_epsilon`"
        )
    if options.pairs is not None and options.crossed and isinstance(options.crossed, int):
        raise FairSiloError(
            f"`pairs` {options.pairs} are found from exact sums, which `dp_epsilon` forbids: name "
            "them, such as age:hours, or leave it out"
        )
    if options.estimator == "mean":
        raise FairSiloError(
            "`estimator` mean divides by every client's own counts, which one row can change "
            "at will: with `dp_epsilon` use `estimator` pooled"
        )
    solver = options.solver_name
    curved = options.model == "lr" or options.binned
    if solver == "lbfgs" or (solver == "newton" and not curved):
        other = "newton or agp" if curved else "agp"
        raise FairSiloError(
            f"`solver` {solver} does not train {options.model} under noise: with "
            f"`dp_epsilon` use `solver` {other}"
        )
    if NOTIONS[options.notion].claims:
        raise FairSiloError(
            f"`notion` {options.notion} measures a row under several classes, for which "
            "`dp_epsilon` has no sums: choose another notion"
        )
    if options.target_deo is not None or options.pool:
        raise FairSiloError(
            "`dp_epsilon` goes with limits on losses and groups that are declared: leave out "
            "`target_deo` and `pool`"
        )
    _check_declared(options)


def _check_declared(options: Options) -> None:
    """Refuse what exact counts or the rows' own values would decide under noise."""
    if options.client is not None and not options.client_names:
        raise FairSiloError(
            f"who is in column {options.client!r} must not be read off the rows with "
            "`dp_epsilon`: name all clients as `client_names`"
        )
    if options.partition != "iid":
        raise FairSiloError(
            f"`partition` {options.partition} deals rows out by exact counts, which `dp_epsilon` "
            "forbids, and the sums over all clients are the same: leave it out"
        )
    if options.min_cell:
        raise FairSiloError(
            "`min_cell` looks at exact counts, and `dp_epsilon` hides small cells by noise "
            "already: leave one of them out"
        )
    if options.variant == "onehot":
        raise FairSiloError(
            "`variant` onehot reads its vocabulary off the rows, which `dp_epsilon` forbids: "
            "use another variant"
        )
