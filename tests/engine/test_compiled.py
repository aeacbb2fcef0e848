"""Programs of few rounds are compiled with QUICK, if available, and give the same results."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo import compute
from fairsilo.compute import jax, quick_options
from fairsilo.model import logistic_regression
from fairsilo.solver import Agp, Lbfgs, Newton
from fairsilo.sums import Compiled, Rows, compiled


@pytest.fixture(autouse=True)
def _ask_again() -> None:
    quick_options.cache_clear()


def test_a_compiler_without_the_option_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "QUICK", {"xla_cpu_no_such_option": False})
    assert quick_options() is None


def test_a_gpu_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert quick_options() is None


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Newton(), Lbfgs(), Agp()], ids=lambda one: one.name)
def test_a_solver_takes_the_same_steps_either_way(
    solver: Newton | Lbfgs | Agp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both option sets: users' L-BFGS and AGP have none, Newton and all tests have QUICK."""
    if quick_options() is None:
        pytest.skip("NOT TESTED: this XLA has no choice of emitters")
    rng = np.random.default_rng(5)
    n, model = 60, logistic_regression(3)
    leaves = (rng.normal(size=(n, 3)), rng.integers(0, 2, n), np.full(n, 1 / n), np.ones((1, n)))
    rows = Rows(*leaves)  # type: ignore[arg-type]

    def losses(emitters: bool) -> np.ndarray:
        options = {"xla_cpu_use_fusion_emitters": emitters}
        program = jax.jit(
            compiled._advance,
            static_argnames=("solver", "asked", "size", "thin"),
            compiler_options=options,
        )
        monkeypatch.setattr(compiled, "_compiled", lambda *_: program)
        found = Compiled(model, rows).solve(solver, np.zeros(4), [0.1], 4)
        return np.asarray(found.history.loss)

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-10)


def test_only_programs_of_few_rounds_are_compiled_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(compiled, "quick_options", lambda: asked.append("asked"))
    for few in (True, False):
        compiled._compiled.cache_clear()
        compiled._compiled(True, few)
        assert asked == ["asked"]
    compiled._compiled.cache_clear()
