"""Convert the estimator's parameters to the options of a run, which checks both alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from fairsilo.estimator.errors import as_value_errors
from fairsilo.estimator.inputs import texts_of
from fairsilo.fairness import Notion
from fairsilo.method import Method
from fairsilo.run.choices import LARGEST_SEED
from fairsilo.run.options import EPSILON, Options
from fairsilo.solver import Solver

KINDS: dict[str, tuple[Any, str]] = {
    "epsilon": ((Real, Mapping), "a number, such as 0.05, or a dict of pairs and numbers"),
    "method": ((str, Method), "a name, such as 'fedfair', or a Method"),
    "model": (
        (str, Callable),
        "'lr', 'mlp', 'additive', or a function from (features, classes) to a Model",
    ),
    "penalty": ((str, Real), "None, 'none', 'auto', 'validation', or a number, such as 1"),
    "pairs": ((str, Integral), "None, a number of pairs, or a text such as 'age:hours,sex:race'"),
    "estimator": (str, "'pooled' or 'mean'"),
    "solver": ((str, Solver), "None, 'newton', 'lbfgs', 'agp', or a solver"),
    "after": (str, "None, or what eo and ceo repair, such as 'fedfair'"),
    "hidden": (Sequence, "None, or sizes of hidden layers, such as (32, 16)"),
    "class_weight": ((str, Mapping), "None, 'balanced', or a dict of classes and numbers"),
    "maximum_weight": (Real, "None or the largest sample_weight, such as 10"),
    "decide_at": ((Real, str), "None, a probability, 'balanced-accuracy', 'f1' or 'share=0.2'"),
    "local_epochs": (Integral, "None or a whole number, such as 5"),
    "batch": (Integral, "None or a number of rows, such as 32"),
    "max_rounds": (Integral, "None or a whole number"),
    "against": (str, "'pairs' or 'rest'"),
    "pool": (Integral, "None or a number of rows"),
    "notion": ((str, Notion), "a name, such as 'equal-opportunity', or a Notion"),
    "target_deo": (Real, "None or a difference of rates, such as 0.02"),
    "target_by": (str, "'proxy' or 'search'"),
    "target_confidence": (Real, "None or a number below 1, such as 0.9"),
    "dp_epsilon": (Real, "None or a number, such as 4"),
    "dp_delta": (Real, "a number far below one over the rows, such as 1e-5"),
    "dp_split": ((tuple, list), "three shares of the budget, such as (0.1, 0.75, 0.15)"),
    "dp_clip": (Real, "a number above 0, such as 1"),
}
SAME = (
    "method",
    "after",
    "model",
    "penalty",
    "pairs",
    "solver",
    "estimator",
    "against",
    "notion",
    "target_by",
)
"""Parameters that are options as they are."""
OPTIONAL = (
    *("decide_at", "after", "hidden", "class_weight", "maximum_weight", "local_epochs", "batch"),
    *("epsilon", "penalty", "pairs", "solver", "max_rounds", "pool"),
    *("target_deo", "target_confidence", "dp_epsilon"),
)


def options_of(parameters: dict[str, Any], weighted: bool = False) -> Options:
    """Check the parameters: TypeError for a wrong type, ValueError for a wrong value.

    `weighted`: whether rows have weights.
    """
    for name, (kind, wanted) in KINDS.items():
        value = parameters[name]
        if value is None and name in OPTIONAL:
            continue
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} is {value!r}: give {wanted}")
    target, confidence = parameters["target_deo"], parameters["target_confidence"]
    if parameters["epsilon"] is not None and target is not None:
        raise ValueError("give epsilon (of losses) or target_deo (of rates), not both")
    epsilon, epsilons = _limits(parameters["epsilon"])
    private = parameters["dp_epsilon"]
    for name in ("bounds", "classes", "client_names"):
        if private is None and parameters[name] is not None:
            raise ValueError(f"{name} are for dp_epsilon: pass it, or leave them out")
    with as_value_errors():
        return Options(
            data="",
            **{name: parameters[name] for name in SAME},
            pool=_whole(parameters["pool"]),
            epsilon=epsilon,
            epsilons=epsilons,
            target_deo=None if target is None else float(target),
            target_confidence=None if confidence is None else float(confidence),
            decide_at=None if parameters["decide_at"] is None else str(parameters["decide_at"]),
            weight="sample_weight" if weighted else None,
            maximum_weight=parameters["maximum_weight"],
            class_weight=_costs(parameters["class_weight"]),
            hidden=parameters["hidden"],
            local_epochs=_whole(parameters["local_epochs"]),
            batch=_whole(parameters["batch"]),
            early_stopping=bool(parameters["early_stopping"]),
            rounds=_whole(parameters["max_rounds"]),
            seed=seed_of(parameters["random_state"], default=0),
            dp_epsilon=None if private is None else float(private),
            dp_delta=float(parameters["dp_delta"]),
            dp_split=_shares(parameters["dp_split"]),
            dp_clip=float(parameters["dp_clip"]),
        )


def _whole(value: Integral | None) -> int | None:
    return None if value is None else int(value)


def _shares(given: Any) -> tuple[float, float, float]:
    try:
        encoder, objective, constraint = map(float, given)
    except (TypeError, ValueError):
        raise ValueError(f"dp_split is {given!r}: give {KINDS['dp_split'][1]}") from None
    return encoder, objective, constraint


def _limits(epsilon: Any) -> tuple[Any, tuple[tuple[str, float], ...]]:
    """The limit of all pairs, and limits of single pairs, named as on the command line."""
    if not isinstance(epsilon, Mapping):
        return (None if epsilon is None else float(epsilon)), ()
    single = []
    for pair, limit in epsilon.items():
        if not isinstance(limit, Real) or isinstance(limit, bool | np.bool_):
            raise TypeError(f"epsilon of {pair!r} is {limit!r}: give a number, such as 0.05")
        names = pair if isinstance(pair, tuple) else (pair,)
        single.append((":".join(texts_of(names)), float(limit)))
    return EPSILON, tuple(single)


def _costs(given: Any) -> Any:
    """The weights of classes, named as in the schema."""
    if not isinstance(given, Mapping):
        return given
    for name, weight in given.items():
        if not isinstance(weight, Real) or isinstance(weight, bool | np.bool_):
            raise TypeError(f"class_weight of {name!r} is {weight!r}: give a number, such as 2")
    return tuple((str(name), float(weight)) for name, weight in given.items())


def seed_of(random_state: Any, *, default: int) -> int:
    """An int is the seed itself, a RandomState draws one, None is the default."""
    if random_state is None:
        return default
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool | np.bool_):
        seed = int(random_state)
        if seed < 0:
            raise ValueError(f"random_state is {random_state}: give a whole number of at least 0")
        if seed > LARGEST_SEED:
            raise ValueError(
                f"random_state is {random_state}: give a whole number of at most {LARGEST_SEED}"
            )
        return seed
    raise TypeError(
        f"random_state is {random_state!r}: give None, a whole number or a numpy RandomState"
    )


def without_limits(options: Options, method: str) -> Options:
    """The options of a training in which nobody is compared."""
    return replace(options, method=method, epsilons=(), target_deo=None, target_confidence=None)
