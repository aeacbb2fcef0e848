"""Rows that are compared with nobody: those without a group, and those of other groups."""

from typing import Any

from fairsilo.data.groups import NO_GROUP
from fairsilo.evaluate import Tally
from fairsilo.run.options import Options
from fairsilo.run.problem import Posed

NOBODY = "they count in the objective and in accuracy, and are compared with nobody"
SHOWN = 3
"""So many groups that are not compared are named."""


def without_group(posed: Posed, tally: Tally) -> dict[str, int]:
    """How many rows have no group, where some may."""
    names = posed.schema.groups
    if NO_GROUP not in names or NO_GROUP in posed.groups:
        return {}
    rows = tally.cells if tally.rows is None else tally.rows
    return {"without_group": int(rows[names.index(NO_GROUP)].sum())}


def other_groups(posed: Posed, tally: Tally) -> dict[str, int]:
    """How many rows the groups have that are not compared, where some are."""
    rows = (tally.cells if tally.rows is None else tally.rows).sum(axis=1)
    known = {*posed.groups, NO_GROUP} if posed.groups else {*posed.schema.groups}
    named = zip(posed.schema.groups, rows, strict=True)
    return {name: int(count) for name, count in named if name not in known and count}


def groupless_note(train: dict[str, Any], test: dict[str, Any]) -> list[str]:
    """Say that rows have no group."""
    if not (train.get("without_group") or test.get("without_group")):
        return []
    known = train.get("without_group")
    training = "" if known is None else f"{known:,} training rows and "
    return [f"{training}{test['without_group']:,} test rows have no group: {NOBODY}"]


def others_note(options: Options, train: dict[str, int] | None, test: dict[str, int]) -> list[str]:
    """Say that rows are of groups that are not compared; nothing under differential privacy."""
    names = list(dict.fromkeys((*(train or {}), *test)))
    if not names or options.dp_epsilon is not None:
        return []
    training = "" if train is None else f"{sum(train.values()):,} training rows and "
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return [
        f"{training}{sum(test.values()):,} test rows are of other groups "
        f"({', '.join(map(repr, names[:SHOWN]))}{more}): {NOBODY}"
    ]
