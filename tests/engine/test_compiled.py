"""Programs of few rounds are compiled quickly, where the compiler can, and say the same."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo import compute
from fairsilo.compute import jax, quick_options
from fairsilo.engine import Pooled, Rows, pooled
from fairsilo.model import logistic_regression
from fairsilo.solver import Newton


@pytest.fixture(autouse=True)
def _ask_again() -> None:
    quick_options.cache_clear()


def test_a_compiler_without_the_option_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "QUICK", {"xla_cpu_no_such_option": False})
    assert quick_options() is None


def test_a_gpu_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert quick_options() is None


def test_newton_takes_the_same_steps_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the emitters of XLA's that users' other programs have, and as Newton is compiled."""
    rng = np.random.default_rng(5)
    n, model = 60, logistic_regression(3)
    leaves = (rng.normal(size=(n, 3)), rng.integers(0, 2, n), np.full(n, 1 / n), np.ones((1, n)))
    rows = Rows(*leaves)  # type: ignore[arg-type]

    def losses() -> np.ndarray:
        pooled._compiled.cache_clear()
        found = Pooled(model, rows).solve(Newton(), np.zeros(4), [0.1], 4)
        return np.asarray(found.history.loss)

    asked = []

    def emitters() -> dict[str, bool]:
        asked.append(used)
        return {"xla_cpu_use_fusion_emitters": used}

    monkeypatch.setattr(pooled, "quick_options", emitters)
    used = False
    quick = losses()
    used = True
    slow = losses()
    pooled._compiled.cache_clear()
    assert asked == [False, True]
    np.testing.assert_allclose(quick, slow, rtol=1e-10)
