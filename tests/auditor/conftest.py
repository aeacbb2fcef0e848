"""One trained run, and the table it was trained on with other models' answers as columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairsilo.data import make_table
from fairsilo.run import Options, Run, execute, save

NUMBERS = ["x0", "x1", "x2", "x3"]


@dataclass(frozen=True)
class Case:
    """A folder with loans.csv and run, and what was trained."""

    folder: Path
    frame: pd.DataFrame
    run: Run
    other: LogisticRegression
    """scikit-learn's model on the four numbers; its answers are columns of the table."""

    @property
    def table(self) -> str:
        return str(self.folder / "loans.csv")

    @property
    def model(self) -> Path:
        return self.folder / "run"


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("audit")
    frame = make_table(900, silos=3, bias=1.0, seed=2)
    frame["part"] = ["test" if i % 3 == 0 else "train" for i in range(len(frame))]
    options = Options(
        data=str(folder / "loans.csv"), label="label", protected_class="1", group="group",
        client="client", split="part", epsilon=0.05, rounds=6,
    )  # fmt: skip
    frame.to_csv(options.data, index=False)
    run = execute(options, baseline=False)
    save(run, folder / "run")
    other = LogisticRegression().fit(frame[NUMBERS].to_numpy(), frame["label"])
    p = other.predict_proba(frame[NUMBERS].to_numpy())
    frame["decision"], frame["p0"], frame["p1"] = other.classes_[np.argmax(p, 1)], p[:, 0], p[:, 1]
    frame.to_csv(folder / "answers.csv", index=False)
    return Case(folder, frame, run, other)
