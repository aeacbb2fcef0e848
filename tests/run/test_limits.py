"""Which limit a training has where none, one or both kinds are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS
from fairsilo.run.options import Options

ABOUT_RATES = {"demographic-parity", "accuracy-parity", "equalized-odds"}


@pytest.mark.parametrize("notion", [*NOTIONS])
def test_without_epsilon_notions_about_rates_have_a_target(notion: str) -> None:
    options = Options(data="", notion=notion)
    assert options.target_deo == (0.05 if notion in ABOUT_RATES else None)
    assert options.epsilon == 0.05
    assert replace(options, seed=1).target_deo == options.target_deo


@pytest.mark.parametrize(
    "given",
    [{"epsilon": 0.05}, {"method": "lco"}, {"method": "fedavg"}, {"epsilons": (("a:b", 0.1),)}],
    ids=str,
)
def test_epsilon_limits_losses_whatever_the_notion(given: dict[str, Any]) -> None:
    assert Options(data="", notion="equalized-odds", **given).target_deo is None
    private = Options(data="", notion="equalized-odds", dp_epsilon=4.0)
    assert private.target_deo is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"target_confidence": 0.9}, "give `target_deo`"),
        ({"target_confidence": 1.0, "target_deo": 0.1}, "from 0.5 to below 1"),
        ({"target_confidence": 0.9, "target_deo": 0.1, "target_by": "search"}, "uses up the rows"),
    ],
)
def test_a_confidence_that_cannot_be(given: dict[str, Any], told: str) -> None:
    with pytest.raises(FairSiloError, match=told):
        Options(data="", **given)
