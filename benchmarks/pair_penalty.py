"""How weak the penalty of pairs may become: the loss on validation rows by its least strength.

    python -m benchmarks.pair_penalty --data adult compas acs --seeds 3

The rows are those of `benchmarks.additive`: 60 % train, 20 % are looked at here, and the test rows
of the same seed are not. Each seed deals the rows out anew, so that a fifth of those looked at are
test rows of any other seed. From this `LEAST_OF_PAIRS` in `run/settle.py` was chosen.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.metrics import log_loss

from benchmarks.additive import table_of, write_parts
from fairsilo import FedFairClassifier
from fairsilo.run import settle

FLOORS = (1.0, 10.0, 30.0, 100.0, 300.0)
ROWS = 50_000
"""Of ACSIncome."""


def losses(data: str, seed: int) -> dict[float, float]:
    """The validation loss of every floor."""
    with tempfile.TemporaryDirectory() as scratch:
        parts = write_parts(table_of(data, ROWS, seed), seed, Path(scratch))
    (x, y), (aside, truth) = (
        (one.drop(columns=["y", "group", "client"]), one["y"])
        for one in (parts["train"], parts["validation"])
    )
    found = {}
    for floor in FLOORS:
        settle.LEAST_OF_PAIRS = floor
        model = FedFairClassifier(method="fedavg", model="additive").fit(x, y)
        found[floor] = float(log_loss(truth, model.predict_proba(aside)))
    return found


def main() -> None:
    """A line for every data set and seed, and the mean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["adult", "compas", "acs"])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    lines = [
        {"data": data, "seed": seed, **losses(data, seed)}
        for data in given.data
        for seed in range(given.seeds)
    ]
    frame = pd.DataFrame(lines)
    print(frame.to_string(index=False, float_format="{:.5f}".format))
    means = frame.groupby("data", sort=False)[list(FLOORS)].mean()
    print(means.to_string(float_format="{:.5f}".format))
    print("best:", means.idxmin(axis=1).to_dict())


if __name__ == "__main__":
    main()
