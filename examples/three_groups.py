"""Three groups, and so three pairs: race on ADULT, with the small groups pooled into one.

    python examples/three_groups.py

Every pair has its own limit. The gaps are on the training rows; they must be at most epsilon.
"""

from __future__ import annotations

import numpy as np

from fairsilo import FedFairClassifier
from fairsilo.data import load

LARGE = ("White", "Black")


def main() -> None:
    """Train without and with limits on all three pairs."""
    adult = load("adult").sample(8000, random_state=0).astype({"education-num": float})
    race = adult["race"].where(adult["race"].isin(LARGE), "other")
    X, y = adult.drop(columns="income"), adult["income"]
    bank = np.arange(len(adult)) % 5

    for clf in (FedFairClassifier(method="fedavg"), FedFairClassifier(epsilon=0.02)):
        clf.fit(X, y, sensitive_features=race, clients=bank)
        print(f"{clf.method}: accuracy {clf.score(X, y):.3f}, {clf.n_iter_} rounds")
        print(clf.constraints_[["pair", "class", "D"]].round(4).to_string(index=False))


if __name__ == "__main__":
    main()
