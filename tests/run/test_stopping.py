"""Training stops where rows set aside have the lowest loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo import FedFairClassifier
from fairsilo.errors import FairSiloError
from fairsilo.run import Options
from fairsilo.run.endings import ended_well
from tests.network.silos import Town, TownTransport, largest_gap, make_town, simulate, train


def noisy(rows: int = 90, columns: int = 60) -> tuple[Any, Any, Any]:
    """Many columns of noise and few rows: the longer one trains, the worse for new rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    y = (x[:, 0] + rng.logistic(size=rows) > 0).astype(int)
    return x, y, np.arange(rows) % 2


@pytest.mark.filterwarnings("error")
def test_rows_set_aside_say_when() -> None:
    x, y, s = noisy()
    clf = FedFairClassifier(method="fedavg", early_stopping=True).fit(x, y, sensitive_features=s)
    long = FedFairClassifier(method="fedavg").fit(x, y, sensitive_features=s)
    assert clf.n_iter_ < long.n_iter_
    assert clf.reason_.startswith("stopped early, as asked")
    assert "rows set aside was lowest" in clf.reason_
    metrics = clf._tested(x, y, sensitive_features=s).metrics
    assert metrics["stopped_early"] is True
    assert ended_well(metrics)
    assert not ended_well({"converged": False})
    new, labels, _ = noisy(2000)

    def loss(model: FedFairClassifier) -> float:
        return float(-model.predict_log_proba(new)[np.arange(2000), labels].mean())

    assert loss(clf) < loss(long)


@pytest.mark.slow
@pytest.mark.parametrize("masks", [False, True])
def test_over_a_network_as_in_simulation(tmp_path: Path, masks: bool) -> None:
    settings: dict[str, Any] = {"rounds": 16, "early_stopping": True}
    town: Town = make_town(tmp_path / "town", 3, 400, secure_aggregation=masks, **settings)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert largest_gap(town, run, other) < 1e-6
    assert run.metrics["rounds"] == other.metrics["rounds"]
    assert run.metrics["rounds_before"] == other.metrics["rounds_before"] > 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "st"}, "not for st"),
        ({"method": "lco"}, "not for lco"),
        ({"model": "additive"}, "which has penalties instead"),
        ({"rounds": 7}, "`rounds` is 7: give at least 8"),
        ({"dp_epsilon": 4.0}, "which `dp_epsilon` does not allow"),
    ],
)
def test_what_it_does_not_go_with(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(FairSiloError, match=told):
        Options(data="t.csv", early_stopping=True, **settings)
