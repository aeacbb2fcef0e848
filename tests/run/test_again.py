"""Training from an earlier model: the same optimum, in fewer rounds; what does not fit is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, Run, execute, save

ROWS = 1500


def options(folder: Path, rows: int = ROWS, **changes: Any) -> Options:
    """A training on the first rows of one table."""
    path = folder / f"{rows}.csv"
    if not path.exists():
        make_table(2 * ROWS, silos=3, bias=1.0).iloc[:rows].to_csv(path, index=False)
    given: dict[str, Any] = {"data": str(path), "label": "label", "group": "group"}
    given |= {"protected_class": "1", "client": "client", "epsilon": 0.01}
    return Options(**{**given, **changes})


def trained(folder: Path, name: str, **changes: Any) -> Path:
    """A run folder."""
    save(execute(options(folder, **changes), baseline=False), folder / name)
    return folder / name


def theta(run: Run) -> np.ndarray:
    return run.trained.outcome.theta


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
def test_on_new_rows_the_model_is_the_one_from_zero(engine: str, tmp_path: Path) -> None:
    first = trained(tmp_path, "first")
    fresh = execute(options(tmp_path, 2 * ROWS, engine=engine), baseline=False)
    again = execute(options(tmp_path, 2 * ROWS, engine=engine, start_from=first), baseline=False)
    np.testing.assert_allclose(theta(again), theta(fresh), atol=1e-4)
    assert again.metrics["train"]["loss"] == pytest.approx(fresh.metrics["train"]["loss"], abs=1e-9)
    assert again.metrics["converged"]
    assert again.trained.outcome.rounds <= fresh.trained.outcome.rounds
    assert "training started from the model in first" in again.metrics["notes"]
    # On the same rows there is nothing left to do.
    same = execute(options(tmp_path, engine=engine, start_from=first), baseline=False)
    assert same.trained.outcome.rounds <= 2


@pytest.mark.slow
def test_a_network_starts_there_too(tmp_path: Path) -> None:
    first = trained(tmp_path, "first", model="mlp", rounds=5, solver="lbfgs")
    run = execute(
        options(tmp_path, model="mlp", rounds=1, solver="lbfgs", start_from=first), baseline=False
    )
    zero = execute(options(tmp_path, model="mlp", rounds=1, solver="lbfgs"), baseline=False)
    assert run.trained.outcome.history.loss[0] < zero.trained.outcome.history.loss[0]


def test_what_does_not_fit_is_said_in_a_sentence(tmp_path: Path) -> None:
    first = trained(tmp_path, "first")
    with pytest.raises(FairSiloError, match="has a model 'lr' and this training is of 'mlp'"):
        execute(options(tmp_path, model="mlp", start_from=first))
    with pytest.raises(FairSiloError, match="trains one for every client"):
        options(tmp_path, method="st", start_from=first)
    with pytest.raises(FairSiloError, match="does not exist"):
        execute(options(tmp_path, start_from=tmp_path))
    with pytest.raises(FairSiloError, match="is not for `model` additive"):
        options(tmp_path, model="additive", start_from=first)
    repaired = trained(tmp_path, "repaired", method="eo")
    with pytest.raises(FairSiloError, match="trained by eo, whose model is repaired"):
        execute(options(tmp_path, start_from=repaired))
    other = options(tmp_path, start_from=first, drop_group=True)
    with pytest.raises(FairSiloError, match="other columns or categories, such as 'group="):
        execute(other)


def test_a_private_run_does_not_start_from_a_model_that_is_not(tmp_path: Path) -> None:
    first = tmp_path / "first"
    adult = Options(data="adult", rounds=2)
    save(execute(adult, baseline=False), first)
    with pytest.raises(FairSiloError, match="trained without differential privacy"):
        execute(replace(adult, dp_epsilon=4.0, start_from=first))
