"""An audit that goes on as rows come in: counts are added up, bounds hold at all times together.

What an audit adds is what it counted; a silo has left out the groups and classes of which the new
rows are fewer than its minimum, so that the difference of two audits shows no small cell.
"""

import json
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.evaluate.rates import gap_bound
from fairsilo.evaluate.sequence import at_any_time

Document = dict[str, Any]
SAME = ("model", "label", "group", "groups", "protected", "classes", "level")
"""What two audits must share to be added."""


def earlier(folder: Path) -> Document | None:
    """The audit in the folder; None where there is none."""
    path = folder / "audit.json"
    if not path.is_file():
        return None
    try:
        found: Document = json.loads(path.read_text())
    except ValueError:
        raise FairSiloError(f"{path} is not an audit: give another `out`") from None
    return found


def appended(found: Document, before: Document | None) -> Document:
    """The audit with what it and all before it counted, and bounds that hold at all times."""
    for name in SAME if before is not None else ():
        if before is not None and before.get(name) != found[name]:
            raise FairSiloError(
                f"the audit before this one has another {name}, so that they cannot be added: give "
                "another `out`"
            )
    told = (before or {}).get("sequence") or {}
    cells = [
        {
            "group": cell["group"],
            "class": cell["class"],
            "rows": cell["rows"] + _so_far(told, cell)[0],
            "right": cell["right"] + _so_far(told, cell)[1],
        }
        for cell in found["cells"]
    ]
    audits = told.get("audits", 0) + 1
    pairs = [_pair(cells, pair, found["level"]) for pair in found["pairs"]]
    bound = max((pair["bound"] for pair in pairs), default=None)
    sequence = {"audits": audits, "cells": cells, "pairs": pairs, "bound": bound}
    if bound is None:
        return {**found, "sequence": sequence}
    rows = sum(cell["rows"] for cell in cells)
    note = (
        f"over {audits} audit{'s' * (audits > 1)} and {rows:,} rows so far the rates are at most "
        f"{100 * bound:.1f} points apart, with {100 * found['level']:g}% confidence at all times "
        "together"
    )
    return {**found, "sequence": sequence, "notes": [*found["notes"], note]}


def _so_far(told: Document, cell: Document) -> tuple[int, int]:
    for one in told.get("cells", ()):
        if (one["group"], one["class"]) == (cell["group"], cell["class"]):
            return int(one["rows"]), int(one["right"])
    return 0, 0


def _pair(cells: list[Document], pair: Document, level: float) -> Document:
    """Each group's rate fails with half of what the level leaves."""
    a, b = (
        next(c for c in cells if (c["group"], c["class"]) == (pair[side], pair["class"]))
        for side in ("a", "b")
    )
    spans = [at_any_time(one["right"], one["rows"], (1 + level) / 2) for one in (a, b)]
    return {
        "a": pair["a"],
        "b": pair["b"],
        "class": pair["class"],
        "rows_a": a["rows"],
        "rows_b": b["rows"],
        "rate_a": [spans[0].low, spans[0].high],
        "rate_b": [spans[1].low, spans[1].high],
        "bound": gap_bound(*spans),
    }
