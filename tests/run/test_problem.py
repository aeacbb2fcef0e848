"""The defaults that a training gets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import rounds_of, solver_name


@pytest.mark.parametrize(
    ("options", "solver", "rounds"),
    [
        ({}, "newton", 150),
        ({"method": "lco"}, "newton", 150),
        ({"solver": "lbfgs"}, "lbfgs", 300),
        ({"solver": "agp"}, "agp", 20_000),
        ({"method": "af"}, "lbfgs", 600),
        ({"method": "eo"}, "newton", 150),
        ({"method": "eo", "after": "af"}, "lbfgs", 600),
        ({"method": "af", "rounds": 21}, "lbfgs", 21),
        ({"model": "mlp", "dp_epsilon": 4.0}, "agp", 1000),
        ({"dp_epsilon": 4.0}, "newton", 6),
    ],
)
def test_solver_and_rounds(options: dict[str, object], solver: str, rounds: int) -> None:
    asked = Options("adult", **options)  # type: ignore[arg-type]
    assert solver_name(asked, 100) == solver
    assert rounds_of(asked, solver) == rounds


def test_large_models_train_without_matrices() -> None:
    assert solver_name(Options("adult"), 2001) == "lbfgs"
    assert solver_name(Options("adult", model="mlp"), 401) == "lbfgs"
    assert solver_name(Options("adult", model="mlp"), 400) == "newton"


@pytest.mark.parametrize("method", [{"method": "fedfair"}, {"method": "eo", "after": "fedfair"}])
def test_a_repair_is_refused_where_the_training_before_it_is(
    method: dict[str, str], tmp_path: Path
) -> None:
    """Each client holds one group: there is no client with a gap to take the mean of."""
    path = tmp_path / "loans.csv"
    make_table(300, seed=1).to_csv(path, index=False)
    columns = {"label": "label", "group": "group", "protected_class": "1", "client": "group"}
    asked = Options(str(path), estimator="mean", **columns, **method)  # type: ignore[arg-type]
    with pytest.raises(FairSiloError, match="use `estimator` pooled"):
        prepare(asked)
    prepare(replace(asked, estimator="pooled"))
