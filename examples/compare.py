"""All methods side by side on a part of ADULT, on rows that none of them has seen.

    python examples/compare.py

For the paper's tables, with seeds and with settings chosen on validation rows: `fairsilo compare`.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from fairsilo import FedFairClassifier
from fairsilo.data import load


def main() -> None:
    """Train every method with the same settings and print one line for each."""
    # Without the country: half a dozen have so few rows that only one of the two parts has any.
    adult = (
        load("adult")
        .drop(columns="native-country")
        .sample(4000, random_state=0)
        .astype({"education-num": float})
    )
    train, test = train_test_split(adult, test_size=0.3, random_state=0)
    X, y = train.drop(columns="income"), train["income"]
    X_test, y_test = test.drop(columns="income"), test["income"]
    bank = np.arange(len(train)) % 4

    print(f"{'method':8} {'accuracy':>8} {'balanced':>8} {'TPR men - women':>16}")
    # Some do not converge in their rounds, and say so.
    warnings.simplefilter("ignore", ConvergenceWarning)
    for method in ("fedavg", "fedfair", "lco", "st", "eo", "ceo", "af"):
        # The epsilon of af is another quantity, its tau.
        clf = FedFairClassifier(1.0 if method == "af" else 0.1, method=method)
        clf.fit(X, y, sensitive_features=X["sex"], clients=bank)
        predicted = clf.predict(X_test, sensitive_features=X_test["sex"])
        men, women = (
            recall_score(y_test[rows], predicted[rows], pos_label=">50K")
            for rows in (X_test["sex"] == "Male", X_test["sex"] == "Female")
        )
        print(
            f"{method:8} {np.mean(predicted == y_test):8.3f} "
            f"{balanced_accuracy_score(y_test, predicted):8.3f} {men - women:16.3f}"
        )


if __name__ == "__main__":
    main()
