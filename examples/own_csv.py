"""Your own CSV, from the file to a scored table and a model for other programs.

    python examples/own_csv.py

It makes a small loans.csv first, with four banks in it; put your own table in its place.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import fairsilo
from fairsilo.data import load
from fairsilo.run import Options, execute, save
from fairsilo.run.predict import score_table


def main(folder: Path) -> None:
    """Train as `fairsilo train` does, then score as `fairsilo predict` does."""
    table = folder / "loans.csv"
    loans = load("adult")
    loans["bank"] = np.array(["north", "south", "east", "west"])[np.arange(len(loans)) % 4]
    loans.to_csv(table, index=False)

    options = Options(
        data=str(table),
        label="income",
        protected_class=">50K",
        group="sex",
        groups=("Female", "Male"),
        client="bank",
        test_fraction=0.25,
        epsilon=0.1,
    )
    run = execute(options)
    save(run, folder / "run")
    for name, test in (
        ("fair", run.metrics["test"]),
        ("free", run.metrics["unconstrained"]["test"]),
    ):
        print(f"{name}: accuracy {test['accuracy']:.3f}, rates apart {test['deo']:.3f}")

    scores, warnings = score_table(folder / "run", table)
    print(scores.head(3).round(3).to_string(index=False), *warnings, sep="\n")

    clf = fairsilo.load(folder / "run")
    print(f"as a scikit-learn object: {clf}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
