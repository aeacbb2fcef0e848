"""The page of runs side by side, in a browser: of old runs, of hostile names, narrow and dark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.auditor.diff import diff
from fairsilo.report.diff import diff_page
from tests.report.browser import Browser
from tests.report.samples import HOSTILE, Sample, sample

CHANGE = {"change": -0.01, "interval": [-0.03, 0.01], "p": 1e-9}
PAIRED: dict[str, Any] = {
    "run": "new", "against": "old", "rows": 800, "weighted": False, "apart": False,
    "accuracy": CHANGE, "loss": None,
    "gaps": [
        {"a": [HOSTILE[0]], "b": ["Male"], "classes": ["high"], "claim": None, "rate": CHANGE,
         "loss": CHANGE, "name": f"{HOSTILE[0]} - Male (high)"}
    ],
}  # fmt: skip


def written(folder: Path, run: Sample) -> Path:
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(run.description))
    (folder / "metrics.json").write_text(json.dumps(run.metrics))
    run.history.to_parquet(folder / "history.parquet")
    return folder


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1200, True)])
def test_the_page(show: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    groups = (HOSTILE[0], "Male")
    old = written(tmp_path / "old", sample(groups=groups))
    other = sample(groups=groups, method="fedavg", loss_gap=0.2)
    other.history.loc[0, "loss"] = np.inf
    new = written(tmp_path / "new", other)
    found = diff([old, new], None, None)
    json.dumps(found, allow_nan=False)
    assert found["settings"] == {"method": ["fedfair", "fedavg"], "epsilon": [0.1, None]}
    assert found["notes"][-1].startswith("there is no paired test")
    page = tmp_path / "diff.html"
    page.write_text(diff_page(found | {"paired": [PAIRED]}), encoding="utf-8")
    show.open(page, width=width, dark=dark)
    assert show.eval("document.documentElement.scrollWidth") <= width
    assert show.eval("document.querySelectorAll('section').length") == 5
    # Accuracy of two runs, and the gap of each in rates and in losses.
    assert show.eval("document.querySelectorAll('.dots .mark').length") == 2 + 2 + 2
    assert show.eval("document.querySelectorAll('#paired tbody tr').length") == 3
    assert show.eval("typeof window.hacked") == "undefined"
