"""scikit-learn's own checks. They call fit(X, y) alone, so that they train without constraint."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairsilo import FedFairClassifier

EXPECTED_FAILURES: dict[str, str] = {}
"""By name of the check, the reason why it cannot pass. There is none."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sensitive_features is missing:UserWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [FedFairClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_check(
    estimator: FedFairClassifier, check: Callable[[FedFairClassifier], None]
) -> None:
    check(estimator)
