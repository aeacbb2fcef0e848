"""What is compared with fairlearn gets the same rows, and a broken promise counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.central import Split, pick

from benchmarks import promises
from fairsilo.coded import dense
from fairsilo.data import make_table
from fairsilo.experiment.cell import hold_out
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare


def test_fairlearn_gets_the_same_matrix(tmp_path: Path) -> None:
    make_table(300, silos=3, bias=1.0, seed=2).to_csv(tmp_path / "t.csv", index=False)
    known = {"label": "label", "group": "group", "client": "client", "protected_class": "1"}
    drawn = prepare(Options(data=str(tmp_path / "t.csv"), **known))  # type: ignore[arg-type]
    split = Split(hold_out(drawn, 0), (drawn.test_x, drawn.test_y, drawn.test_s))
    for part, (x, y, _) in split.parts.items():
        numbers = split.numbers(part)[:, 0]
        assert len(numbers) == len(y)
        np.testing.assert_allclose(split.matrix[numbers].toarray(), dense(x))


def test_the_setting_is_picked_on_validation_rows() -> None:
    names = ("setting", "validation_gap", "validation_accuracy", "test_accuracy")
    unfair, fair, fairer = (
        dict(zip(names, one, strict=True))
        for one in ((0, -0.03, 0.9, 0.9), (1, 0.02, 0.8, 0.1), (2, 0.01, 0.7, 0.9))
    )
    assert pick([unfair, fair, fairer])["setting"] == 1
    assert pick([unfair])["setting"] == 0


def test_a_broken_promise_is_counted_as_one() -> None:
    told = [{"promised": True, "kept": k < 3, "gap": 0.05 + k, "accuracy": 0.8} for k in range(4)]
    lines: list[dict[str, Any]] = [*told, {"promised": False}]
    found = promises.summarise(
        [{"data": "adult", "target": 0.1, "draw": k, **one} for k, one in enumerate(lines)]
    )
    assert found[["draws", "refused", "promised", "kept"]].to_numpy().tolist() == [[5, 1, 4, 3]]
    assert found["broken, of all draws"].item() == pytest.approx(0.2)
