"""scikit-learn's own checks. They call fit(X, y), which trains without constraints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairsilo import FedFairClassifier

EXPECTED_FAILURES: dict[str, str] = {}
"""Checks that cannot pass, with the reason; there are none."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sensitive_features is missing:UserWarning")
@pytest.mark.filterwarnings("ignore:on the training rows the model is hardly better")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [FedFairClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_check(
    estimator: FedFairClassifier, check: Callable[[FedFairClassifier], None]
) -> None:
    check(estimator)
