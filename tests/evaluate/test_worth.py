"""A model that finds almost nobody is called so, whatever its accuracy and its fairness."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo import FedFairClassifier
from fairsilo.errors import FairSiloWarning
from fairsilo.evaluate import Tally
from fairsilo.evaluate.worth import balanced_interval, worth
from fairsilo.run import Options
from fairsilo.run.train import execute


def tally(*counts: tuple[int, int]) -> Tally:
    """One group, two classes: (predicted 0, predicted 1) of each."""
    return Tally(np.array([counts]), np.zeros((1, 2)), np.zeros((1, 2)))


def test_three_of_642_is_of_little_use() -> None:
    found = worth(tally((2351, 7), (639, 3)), ("no", "yes"), common=0)
    assert found["useful"] is False
    assert "finds 3 of the 642 of class 'yes'" in found["why"]
    assert "accuracy is 0.7847, of a constant 0.7860" in found["why"]
    one = replace(tally((2351, 7), (639, 3)), rows=np.array([[4000, 900]]))
    assert "it finds 0% of class 'yes'" in worth(one, ("no", "yes"), common=0)["why"]


def test_a_useful_model_is_not_called_names() -> None:
    found = worth(tally((900, 100), (50, 50)), ("no", "yes"), common=0)
    assert (found["useful"], found["why"]) == (True, None)
    # Several classes: the constant has a third.
    even = Tally(np.full((1, 3, 3), 5), np.zeros((1, 3)), np.zeros((1, 3)))
    assert worth(even, ("a", "b", "c"), common=0)["constant"] == pytest.approx(1 / 3)


def test_of_several_classes_one_that_is_compared_must_be_found() -> None:
    counts = np.array([[[300, 10, 0], [10, 300, 0], [20, 19, 1]]])
    three, names = Tally(counts, np.zeros((1, 3)), np.zeros((1, 3))), ("high", "low", "fraud")
    assert worth(three, names, common=0, compared=[0, 1])["useful"]
    found = worth(three, names, common=0, compared=[2])
    assert found["useful"] is False
    assert "almost blind to class 'fraud'" in found["why"]
    assert "finds 1 of the 40" in found["why"]
    more = replace(three, counts=counts + np.array([[[0] * 3] * 2 + [[0, 0, 3]]]))
    assert worth(more, names, common=0, compared=[2])["useful"]


def test_the_interval_holds_what_is_drawn() -> None:
    """95 in 100 intervals hold the truth, for rates at the edge, too."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        a, b = rng.binomial(400, 0.98), rng.binomial(60, 0.1)
        low, high = balanced_interval(tally((a, 400 - a), (60 - b, b))) or (1, 0)
        held += low <= (0.98 + 0.1) / 2 <= high
    assert held > 935


def rare(rows: int = 600) -> pd.DataFrame:
    """One in twelve is positive, and the column says next to nothing of it."""
    rng = np.random.default_rng(3)
    y = np.arange(rows) % 12 == 0
    return pd.DataFrame({
        "x": rng.normal(size=rows) + 0.3 * y,
        "sex": np.where(rng.random(rows) < 0.5, "f", "m"),
        "y": np.where(y, "yes", "no"),
        "bank": np.arange(rows) % 3,
    })  # fmt: skip


def test_a_run_and_the_estimator_say_so(tmp_path: Path) -> None:
    frame = rare()
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = execute(Options(
        data=str(tmp_path / "t.csv"), label="y", protected_class="yes", group="sex", client="bank",
        epsilon=2.0,
    ), baseline=False)  # fmt: skip
    assert "hardly better than one answer" in run.metrics["worth"]["why"]
    assert any(note.startswith("no limit binds") for note in run.metrics["notes"])
    with pytest.warns(FairSiloWarning, match="on the training rows the model is hardly better"):
        FedFairClassifier().fit(frame[["x"]], frame["y"], sensitive_features=frame["sex"])


def test_a_limit_just_above_the_gap_does_not_bind(tmp_path: Path) -> None:
    frame = rare()
    frame.to_csv(tmp_path / "t.csv", index=False)
    told: dict[str, Any] = {
        "data": str(tmp_path / "t.csv"), "label": "y", "protected_class": "yes", "group": "sex",
        "client": "bank",
    }  # fmt: skip
    free = execute(Options(method="fedavg", **told), baseline=False)
    gap = free.metrics["train"]["dgeo_pooled"]
    for factor, idle in ((1.001, True), (0.999, False)):
        run = execute(Options(epsilon=factor * gap, **told), baseline=False)
        notes = run.metrics["notes"]
        assert any(note.startswith("no limit binds") for note in notes) == idle
