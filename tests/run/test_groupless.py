"""Rows without a group train the objective, and are compared with nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo import FedFairClassifier
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute
from fairsilo.run.options import Options as Given

EPSILON = 0.01


def table(rows: int = 600) -> pd.DataFrame:
    frame = make_table(rows, silos=3, bias=1.5, seed=1)
    frame["part"] = np.where(np.arange(rows) % 6 == 0, "test", "train")
    return frame.assign(group=frame["group"].where(np.arange(rows) % 7 > 0))


def options(path: Path, **told: Any) -> Given:
    return Options(
        data=str(path), label="label", protected_class="1", group="group", client="client",
        split="part", epsilon=EPSILON, drop_group=True, **told,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
def test_as_if_they_were_a_group_that_nobody_compares(tmp_path: Path, engine: str) -> None:
    frame = table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.fillna({"group": "unknown"}).to_csv(tmp_path / "b.csv", index=False)
    run = execute(options(tmp_path / "a.csv", engine=engine), baseline=False)
    other = execute(options(tmp_path / "b.csv", groups=("g0", "g1")), baseline=False)
    theta = run.trained.outcome.theta
    # Along directions that change no score (intercept and one-hot columns) rounding decides.
    assert theta == pytest.approx(other.trained.outcome.theta, abs=1e-6)
    # Were they left out of the objective, too, the model would be another.
    frame[frame["group"].notna()].to_csv(tmp_path / "c.csv", index=False)
    less = execute(options(tmp_path / "c.csv"), baseline=False).trained.outcome.theta
    assert np.abs(theta - less).max() > 1e-3
    test = frame["part"] == "test"
    missing = frame["group"].isna()
    assert run.metrics["train"]["without_group"] == int((missing & ~test).sum())
    assert run.metrics["test"]["without_group"] == int((missing & test).sum())
    assert run.metrics["test"]["rows"] == int(test.sum())
    assert any("have no group" in note for note in run.metrics["notes"])
    assert run.prepared.groups == ("g0", "g1")
    assert not any("other groups" in note for note in run.metrics["notes"])
    assert (
        f"{int((missing & ~test).sum())} training rows and {int((missing & test).sum())} test rows "
        "are of other groups ('unknown'): they count in the objective and in accuracy, and are "
        "compared with nobody"
    ) in other.metrics["notes"]


def test_they_are_refused_where_that_is_asked_for(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(FairSiloError, match="group column 'group' is empty in 86 rows"):
        execute(options(tmp_path / "a.csv", groupless="refuse"))


def test_one_of_several_columns_is_enough(tmp_path: Path) -> None:
    frame = table()
    frame["age"] = pd.Series("old", frame.index).where(np.arange(len(frame)) % 5 > 0)
    frame.loc[::2, "age"] = "young"
    frame.to_csv(tmp_path / "a.csv", index=False)
    run = execute(replace(options(tmp_path / "a.csv"), group="group,age", pool=0), baseline=False)
    missing = (frame["group"].isna() | frame["age"].isna()) & (frame["part"] == "train")
    assert run.metrics["train"]["without_group"] == int(missing.sum())
    assert len(run.prepared.groups) == 4


def test_the_estimator_does_the_same() -> None:
    frame = table()
    x, y = frame[["x0", "x1", "c0"]], frame["label"]
    clf = FedFairClassifier(EPSILON).fit(x, y, sensitive_features=frame["group"])
    filled = frame["group"].fillna("unknown")
    other = FedFairClassifier(EPSILON, groups=["g0", "g1"]).fit(x, y, sensitive_features=filled)
    assert clf.coef_ == pytest.approx(other.coef_, abs=1e-7)
    assert clf.groups_.tolist() == ["g0", "g1", "(none)"]
