"""FairSilo in one page: ADULT (shipped with the package), 10 banks, fair between women and men.

    python examples/quickstart.py

For each epsilon, on rows the model has not seen: accuracy, and how much more often a man above
50K is recognised than a woman above 50K (difference of true-positive rates). `gap` is what
epsilon limits: the difference of their mean losses on the training rows. A limit on losses is not
one on rates, which a small epsilon may even turn round: choose it on rows held out.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from fairsilo import FedFairClassifier
from fairsilo.data import load


def main() -> None:
    """Train without and with the constraint, and print a table."""
    adult = load("adult").astype({"education-num": float})
    bank = np.arange(len(adult)) % 10
    train, test, train_bank, _ = train_test_split(adult, bank, test_size=0.2, random_state=0)
    X, y = train.drop(columns="income"), train["income"]
    X_test, y_test = test.drop(columns="income"), test["income"]

    print(f"{'epsilon':>8} {'rounds':>7} {'gap':>7} {'accuracy':>9} {'TPR men - women':>16}")
    for epsilon in (None, 0.1, 0.01):
        clf = FedFairClassifier(method="fedavg") if epsilon is None else FedFairClassifier(epsilon)
        clf.fit(X, y, sensitive_features=X["sex"], clients=train_bank)
        predicted = clf.predict(X_test)
        men, women = (
            recall_score(y_test[rows], predicted[rows], pos_label=">50K")
            for rows in (X_test["sex"] == "Male", X_test["sex"] == "Female")
        )
        print(
            f"{epsilon or 'none':>8} {clf.n_iter_:>7} {abs(clf.constraints_['D'].item()):>7.3f} "
            f"{clf.score(X_test, y_test):>9.3f} {men - women:>16.3f}"
        )


if __name__ == "__main__":
    main()
