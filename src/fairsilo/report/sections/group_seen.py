"""Whether the model sees the group, and what it would be without, in a sentence."""

from collections.abc import Mapping
from typing import Any

from fairsilo.report.text import listing


def group_words(metrics: Mapping[str, Any], rows: str = "test") -> str | None:
    """The sentence, without a full stop; None where the group is no feature.

    `rows`: whose figures these are, "test" or "training".
    """
    found = metrics.get("group_feature")
    if not found:
        return None
    said = f"the model sees the group ({listing([str(one) for one in found['columns']])})"
    without, test = found.get("without"), metrics[rows]
    if without is None:
        return said
    told = [
        f"{what} {without[key]:.4f} instead of {test[key]:.4f}{apart}"
        for key, what, apart in (
            ("accuracy", "accuracy is", ""),
            ("rate_gap", "rates are", " apart"),
            ("dgeo_pooled", "losses are", " apart"),
        )
        if without.get(key) is not None and test.get(key) is not None
    ]
    return f"{said}: trained without, {', '.join(told)} on the {rows} rows" if told else said
