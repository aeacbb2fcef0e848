"""Audits that are added: the counts of both, and bounds that hold at all times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fairsilo
from fairsilo.auditor.ongoing import appended, earlier
from fairsilo.errors import FairSiloError


def audited(seed: int, rows: int = 600, level: float = 0.95) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    y, s = rng.choice(["no", "yes"], rows), rng.choice(["Female", "Male"], rows)
    wrong = rng.random(rows) < 0.2
    guess = np.where(wrong, np.where(y == "yes", "no", "yes"), y)
    return fairsilo.audit(
        y=y, y_pred=guess, sensitive_features=s, protected_class="yes", level=level
    ).found


def test_counts_add_up_and_bounds_shrink(tmp_path: Path) -> None:
    first = appended(audited(0), earlier(tmp_path))
    (tmp_path / "audit.json").write_text(json.dumps(first))
    second = appended(audited(1), earlier(tmp_path))
    assert first["sequence"]["audits"] == 1
    assert second["sequence"]["audits"] == 2
    for one, two, both in zip(
        audited(0)["cells"],
        audited(1)["cells"],
        second["sequence"]["cells"],
        strict=True,  # type: ignore[call-overload]
    ):
        assert both["rows"] == one["rows"] + two["rows"]
        assert both["right"] == one["right"] + two["right"]
    assert second["sequence"]["bound"] < first["sequence"]["bound"]
    assert "over 2 audits and 1,200 rows so far" in second["notes"][-1]


def test_only_audits_of_the_same_are_added() -> None:
    with pytest.raises(FairSiloError, match="another level"):
        appended(audited(0), appended(audited(1, level=0.9), None))
