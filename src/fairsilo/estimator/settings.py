"""The estimator's parameters as the options of a run, so that both are checked by one piece."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from fairsilo.estimator.errors import as_value_errors
from fairsilo.run.options import Options

KINDS: dict[str, tuple[type, str]] = {
    "epsilon": (Real, "a number, such as 0.05"),
    "method": (str, "a name, such as 'fedfair'"),
    "model": (str, "'lr' or 'mlp'"),
    "estimator": (str, "'pooled' or 'mean'"),
    "solver": (str, "None, 'newton', 'lbfgs' or 'agp'"),
    "max_rounds": (Integral, "None or a whole number"),
}
OPTIONAL = ("solver", "max_rounds")


def options_of(parameters: dict[str, Any]) -> Options:
    """Check the parameters: TypeError for a wrong type, ValueError for a wrong value."""
    for name, (kind, wanted) in KINDS.items():
        value = parameters[name]
        if value is None and name in OPTIONAL:
            continue
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} is {value!r}: give {wanted}")
    rounds = parameters["max_rounds"]
    with as_value_errors():
        return Options(
            data="",
            method=parameters["method"],
            model=parameters["model"],
            solver=parameters["solver"],
            estimator=parameters["estimator"],
            epsilon=float(parameters["epsilon"]),
            rounds=None if rounds is None else int(rounds),
            seed=seed_of(parameters["random_state"], default=0),
        )


def seed_of(random_state: Any, *, default: int) -> int:
    """An int is the seed itself, a RandomState draws one, None is the default."""
    if random_state is None:
        return default
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool | np.bool_):
        if random_state < 0:
            raise ValueError(f"random_state is {random_state}: give a whole number of at least 0")
        return int(random_state)
    raise TypeError(
        f"random_state is {random_state!r}: give None, a whole number or a numpy RandomState"
    )
