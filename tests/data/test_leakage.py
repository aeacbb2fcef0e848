"""What gives the answer away is found by counting, and is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import infer_schema, make_table
from fairsilo.data.leakage import alone, codes_of, leaks, twins
from fairsilo.data.schema import Number
from fairsilo.run import Options, execute

ROWS = 1200


def table(**columns: Any) -> pd.DataFrame:
    return make_table(ROWS, silos=4, bias=1.0, seed=1).assign(**columns)


def said(frame: pd.DataFrame, client: str | None = "client") -> list[str]:
    schema = infer_schema(frame, label="label", group="group", exclude=["client"])
    y = frame["label"].to_numpy().astype(np.int64)
    return list(leaks(frame, schema, y, ["group"], client))


def test_an_honest_table_is_not_suspected() -> None:
    assert said(table()) == []


@pytest.mark.parametrize("kind", ["text", "number", "noisy", "scaled", "rare"])
def test_a_copy_of_the_label_is_named(kind: str) -> None:
    rng = np.random.default_rng(0)
    frame = table()
    if kind == "rare":
        frame["label"] = np.where(np.arange(ROWS) % 60 == 0, "1", "0")
    y = frame["label"].astype(int).to_numpy()
    copies = {
        "text": np.where(y == 1, "paid", "open"),
        "number": y.astype(float),
        "noisy": np.where(rng.random(ROWS) < 0.01, 1 - y, y),
        "scaled": y * 10 + rng.random(ROWS),
        "rare": y * 10 + rng.random(ROWS),
    }
    [words] = said(frame.assign(outcome=copies[kind]))
    assert "column 'outcome' alone predicts the label almost perfectly" in words
    assert words.endswith("give `drop` outcome")


def test_the_figure_is_the_best_answers() -> None:
    """Against trying every answer for every value."""
    rng = np.random.default_rng(1)
    codes, y = rng.integers(0, 4, 300), rng.integers(0, 2, 300)
    best = 0.0
    for answers in np.ndindex(2, 2, 2, 2):
        right = np.array(answers)[codes] == y
        best = max(best, (right[y == 0].mean() + right[y == 1].mean()) / 2)
    assert alone(codes, y, 2) == pytest.approx(best)
    values = pd.DataFrame({"x": [1.0, 2.0, np.nan, 2.0]})
    assert codes_of(values, Number(name="x")).tolist()[2] == 0


def test_the_group_and_the_holder_in_other_words() -> None:
    frame = table()
    gender = frame["group"].map({"g0": "w", "g1": "m"})
    branch = frame["client"].astype("category").cat.codes.astype(float)
    words = said(frame.assign(gender=gender, branch=branch))
    assert [one.split(":")[0] for one in words] == [
        "column 'gender' says the same as the group, column 'group'",
        "column 'branch' says the same as who holds the row, column 'client'",
    ]


def test_test_rows_that_training_sees() -> None:
    frame = table()
    schema = infer_schema(frame, label="label", group="group", exclude=["client"])
    test = np.arange(ROWS) % 5 == 0
    assert twins(frame, schema, test) == ""
    doubled = pd.concat([frame, frame], ignore_index=True)
    test = np.random.default_rng(0).random(2 * ROWS) < 0.2
    assert "test rows are training rows, too" in twins(doubled, schema, test)
    # Rows of two columns with two values each are alike without anybody's fault.
    coarse = frame[["c0", "label", "group"]]
    small = infer_schema(coarse, label="label", group="group")
    assert twins(coarse, small, test[:ROWS]) == ""


def test_a_run_says_so(tmp_path: Path) -> None:
    frame = table()
    frame.assign(outcome=np.where(frame["label"] == "1", "paid", "open")).to_csv(
        tmp_path / "t.csv", index=False
    )
    options = Options(
        data=str(tmp_path / "t.csv"), label="label", protected_class="1", group="group",
        client="client", rounds=2,
    )  # fmt: skip
    notes = execute(options, baseline=False).metrics["notes"]
    assert any("'outcome' alone predicts the label" in note for note in notes)


def test_a_run_on_doubled_rows_claims_no_unseen_rows(tmp_path: Path) -> None:
    frame = table()
    pd.concat([frame, frame]).to_csv(tmp_path / "t.csv", index=False)
    run = execute(
        Options(
            data=str(tmp_path / "t.csv"), label="label", group="group", protected_class="1",
            client="client", epsilon=0.05,
        ),
        baseline=False,
    )  # fmt: skip
    assert run.metrics["unseen"] is False
    assert "provided the model never saw them" in run.metrics["certificate"]["statement"]
