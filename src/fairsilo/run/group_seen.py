"""Whether the model sees the group: its columns are features unless the user drops them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fairsilo.data import DATASETS, Schema
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.question import Problem
from fairsilo.run.logged import silent
from fairsilo.run.options import Options

FIGURES = ("accuracy", "rate_gap", "dgeo_pooled")
MOST = 200_000
"""With more rows a second training is not cheap."""


def group_features(options: Options, schema: Schema) -> tuple[str, ...]:
    """The columns that name the group: AF's adversary must not see them."""
    known = DATASETS.get(options.data)
    if known and options.group is None:
        return known.group_features
    return schema.group_columns or (schema.group,)


def group_feature(options: Options, schema: Schema) -> dict[str, Any]:
    """What metrics.json says of it: the columns of the group that are features, if any."""
    seen = [name for name in group_features(options, schema) if name in schema.columns]
    return {"group_feature": {"columns": seen}} if seen else {}


def is_cheap(options: Options, problem: Problem) -> bool:
    """Whether a second training takes a few rounds: a linear model by Newton."""
    method = METHODS[options.after or options.method]
    return problem.model.linear and problem.solver.name == "newton" and not method.own_solver


def compare_without(
    options: Options, problem: Problem, metrics: dict[str, Any], train: Callable[..., Any]
) -> None:
    """Add the figures of the same training without these columns, where it is cheap."""
    if "group_feature" not in metrics:
        return
    if not is_cheap(options, problem) or metrics["train"]["rows"] > MOST:
        return
    try:
        with silent():
            other = train(replace(options, drop_group=True), baseline=False).metrics
    except FairSiloError:  # Nothing is left to train on, or to start from.
        return
    if "group_feature" not in other:
        metrics["group_feature"]["without"] = {key: other["test"][key] for key in FIGURES}
