"""Fixtures that several tests of silos share."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.network.members import make_work
from tests.network.silos import Town, make_town, restart_witnesses

LONGEST = 600
"""Seconds that one test with real processes may take, on the slowest machine."""


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise; clipping, rounding to the grid and the ledgers stay."""
    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", lambda size, *_: np.zeros(size))


@pytest.fixture
def restarted() -> None:
    """The test has a witness's process of its own."""
    restart_witnesses()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """Four silos and a witness."""
    return make_town(tmp_path_factory.mktemp("watched"), watched=1, rounds=30)


@pytest.fixture
def bounded() -> Iterator[None]:
    """Fail the test if it takes longer than LONGEST."""

    def over(*_: object) -> None:
        raise TimeoutError(f"the test took more than {LONGEST} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder with four silos, whose keys lie in the folders at/NAME."""
    return make_work(tmp_path)
