"""Fixtures that several tests of silos share."""

import numpy as np
import pytest


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise; clipping, rounding to the grid and the ledgers stay."""
    monkeypatch.setattr("fairsilo.dp.noise.normal", lambda size, source: np.zeros(size))
