"""A run's limits on the gap in losses between two groups within a class."""

from collections.abc import Sequence

from fairsilo.evaluate.certificate import Names
from fairsilo.fairness import Dgeo
from fairsilo.run import Saved


def promised(saved: Saved, pairs: Sequence[Dgeo], names: Names) -> tuple[float | None, ...]:
    """For every audited pair, the limit under which the run was trained, or None."""
    limits = {
        (frozenset((*one["a"], *one["b"])), one["classes"][0]): one["epsilon"]
        for one in saved.description.get("compared", ())
        if one["claim"] is None and len(one["a"]) == len(one["b"]) == len(one["classes"]) == 1
    }
    return tuple(
        limits.get((frozenset((names.groups[k.a], names.groups[k.b])), names.classes[k.c]))
        for k in pairs
    )
