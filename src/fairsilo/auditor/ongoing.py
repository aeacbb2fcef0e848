"""An audit that goes on as rows come in: counts are added up, bounds hold at all times together.

What an audit adds is what it counted; a silo has left out the groups and classes of which the new
rows are fewer than its minimum, so that the difference of two audits shows no small cell. The
certificate is then about the rates of all rows so far, by the notion of the audit. Bounds of losses
hold for one audit, so there are none.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.arrays import Ints
from fairsilo.auditor.by_notion import constraints_of
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.certificate import Names, refuse
from fairsilo.evaluate.metrics import largest, rate_gap
from fairsilo.evaluate.rates import certify_rates, joined
from fairsilo.evaluate.tally import Tally

Document = dict[str, Any]
SAME = ("model", "label", "group", "groups", "protected", "classes", "notion", "level")
"""What two audits must share to be added."""
TRAINED = "it was trained on rows of these audits, and on those a gap can be small by training"
ONE = "bounds of losses hold for one audit, and not for audits that are added"


def earlier(folder: Path) -> Document | None:
    """The audit in the folder; None where there is none."""
    path = folder / "audit.json"
    if not path.is_file():
        return None
    try:
        found: Document = json.loads(path.read_text())
    except ValueError:
        found = {}
    if not isinstance(found, dict) or "cells" not in found:
        raise FairSiloError(f"{path} is not an audit: give another `out`")
    return found


def appended(found: Document, before: Document | None) -> Document:
    """The audit with what it and all before it counted, and bounds that hold at all times."""
    nothing: Document = {"audits": 0, "cells": [], "unseen": True}
    told = nothing if before is None else _told(before, found)
    cells = [_added(cell, told["cells"]) for cell in found["cells"]]
    unseen = found["unseen"]
    if unseen is not False and told["unseen"] is not True:
        unseen = told["unseen"]
    rates = _rates(found, cells, told["audits"] + 1)
    rows, level = sum(cell["rows"] for cell in cells), found["level"]
    certificate = {
        **refuse(TRAINED if unseen is False else ONE, found["limit"], level),
        "rows": rows,
    }
    if unseen is not False:
        certificate = joined(certificate, rates, unseen is True)
    return {
        **found,
        "sequence": {**rates, "unseen": unseen, "cells": cells},
        "certificate": certificate,
        "notes": [*found["notes"], *_notes(found, rates["audits"])],
    }


def _told(before: Document, found: Document) -> Document:
    """What the audit before this one counted, and all before that; it must be of the same."""
    told: Document = before.get("sequence") or {**before, "audits": 1}
    if any("predicted" not in cell for cell in told["cells"]) or "unseen" not in told:
        raise FairSiloError(
            "the audit before this one is of an older FairSilo, and lacks counts that are added "
            "now: give another `out`, and audit its rows again with `append`"
        )
    for name in SAME:
        if before.get(name) != found[name]:
            raise FairSiloError(
                f"the audit before this one has another {name}, so that they cannot be added: give "
                "another `out`"
            )
    known = before.get("model_sha256"), found["model_sha256"]
    if None not in known and len(set(known)) > 1:
        raise FairSiloError(
            f"{found['model']} is another model than at the audit before this one, though it has "
            "its name, so that they cannot be added: give another `out`"
        )
    return told


def _added(cell: Document, told: list[Document]) -> Document:
    """The counts of a group and class, with those of the same before."""
    same = [one for one in told if (one["group"], one["class"]) == (cell["group"], cell["class"])]
    parts = [cell, *same]
    return {
        "group": cell["group"],
        "class": cell["class"],
        **{name: sum(one[name] for one in parts) for name in ("rows", "right", "hidden")},
        "predicted": {
            name: sum(one["predicted"][name] for one in parts) for name in cell["predicted"]
        },
    }


def _rates(found: Document, cells: list[Document], audits: int) -> Document:
    """The rates by the audit's notion, with bounds that hold at all times together."""
    groups, classes = list(dict.fromkeys(cell["group"] for cell in cells)), found["classes"]
    names = Names(groups, classes, found["group"], found["label"])
    shape = len(groups), len(classes)
    counts: Ints = np.array([list(cell["predicted"].values()) for cell in cells], np.int64)
    hidden: Ints = np.array([cell["hidden"] for cell in cells], np.int64).reshape(shape)
    tally = Tally(counts.reshape(*shape, len(classes)), np.zeros(shape), np.zeros(shape))
    compared = constraints_of(found["notion"], names, found["groups"], found["protected"])
    said, target = names.spoken, found["target_deo"]
    rates = certify_rates(
        tally, compared, said.groups, said.classes, target, found["level"], hidden, audits
    )
    return {**rates, "value": largest([rate_gap(tally, one) for one in compared])}


def _notes(found: Document, audits: int) -> list[str]:
    notes = []
    if audits > 1:
        notes.append(
            f"the certificate is about the rows of {audits} audits, and every other figure about "
            "those of this one"
        )
    if found["limit"] is not None:
        notes.append(
            f"the limit of {found['limit']:g} on losses is not certified: {ONE} (audit without "
            "`append`)"
        )
    return notes
