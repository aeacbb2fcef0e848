"""The federation file as the options of `fairsilo train`: of the run folder, and to simulate it."""

from __future__ import annotations

from typing import Any

from fairsilo.flower.charter import Charter
from fairsilo.run import Options


def options_of(charter: Charter, data: str, client: str | None = None) -> Options:
    """The options; with a column that names the silo of a row, those of the simulation."""
    table = charter.table
    return Options(
        data=data,
        label=table.label,
        protected_class=charter.protected_class,
        group=table.group,
        groups=charter.groups,
        drop_group=table.group not in table.columns,
        client=client,
        split=charter.split,
        test_fraction=None if charter.split else charter.test_fraction,
        seed=charter.seed,
        method=charter.method,
        model=charter.model,
        solver=charter.solver,
        estimator=charter.estimator,
        epsilon=charter.epsilon,
        rounds=charter.rounds,
        # Its message of a silo is the network's; over pooled rows sums would differ in last bits.
        engine="pooled" if client is None else "clientwise",
        **_private(charter),
    )


def _private(charter: Charter) -> dict[str, Any]:
    if charter.dp is None:
        return {}
    return {
        "dp_epsilon": charter.dp.epsilon,
        "dp_delta": charter.dp.delta,
        "dp_split": charter.dp.split,
        "dp_clip": charter.dp.clip,
        "dp_noise": "shared" if charter.secure_aggregation else "full",
    }
