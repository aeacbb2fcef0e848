"""Audit a model that FairSilo did not train: scikit-learn's random forest on ADULT, ten silos.

    python examples/audit.py

Prints the gaps between women and men above 50K with their intervals, and leaves audit.json and
audit.html in the folder `audit`.
"""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import fairsilo
from fairsilo.data import load


def main() -> None:
    """Train a forest on the numbers of the table, and audit it on rows it has not seen."""
    adult = load("adult")
    train, test = train_test_split(adult, test_size=0.3, random_state=0)
    numbers = list(adult.select_dtypes("number").columns)
    forest = RandomForestClassifier(50, max_depth=8, random_state=0)
    forest.fit(train[numbers], train["income"])

    found = fairsilo.audit(
        test[numbers],
        test["income"],
        sensitive_features=test["sex"],
        clients=np.arange(len(test)) % 10,
        predict_proba=forest.predict_proba,
        protected_class=">50K",
        epsilon=0.25,
        min_cell=5,
        unseen=True,
    )
    print(f"DEO {found.deo:.4f}, DGEO {found.dgeo:.4f}")
    print(found.pairs.filter(like="gap").T.to_string(header=False))
    print(found.found["certificate"]["statement"])
    found.save("audit")


if __name__ == "__main__":
    main()
