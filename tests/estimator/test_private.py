"""Differential privacy in the estimator: same result as a private run, declared bounds, cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairsilo
from fairsilo import FedFairClassifier
from fairsilo.run import Options, execute, save
from tests.estimator.data import table
from tests.network.silos import bounded

ROWS = table(800, silos=4)
BOUNDS: dict[str, Any] = {
    **{f"x{k}": (-5, 5) for k in range(4)}, "c0": ["a", "b", "c"], "group": ["g0", "g1"]
}  # fmt: skip


def private(**given: Any) -> FedFairClassifier:
    return FedFairClassifier(**{"epsilon": 0.1, "dp_epsilon": 8.0, "bounds": BOUNDS, **given})


@pytest.mark.slow
def test_a_private_fit_has_its_price() -> None:
    clf = private().fit(ROWS.X, ROWS.y, **ROWS.extra)
    assert clf.dp_ is not None
    # The estimator does not release the final measurement, so part of the budget is left.
    assert 7 < clf.dp_["epsilon_spent"] < 8
    assert clf.dp_["noise"] == "shared"
    assert clf.dp_["releases"] == 1 + 1 + 6 * 2 + 1
    assert clf.n_iter_ == 6
    assert clf.score(ROWS.X, ROWS.y) > 0.6
    again = private().fit(ROWS.X, ROWS.y, **ROWS.extra)
    assert not np.array_equal(clf.coef_, again.coef_), "noise must not be seeded"
    assert FedFairClassifier().fit(ROWS.X, ROWS.y, **ROWS.extra).dp_ is None


@pytest.mark.slow
def test_without_noise_it_is_the_private_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", lambda size, *_: np.zeros(size))
    path = tmp_path / "rows.csv"
    frame = ROWS.X.assign(label=ROWS.y, client=ROWS.client, part="train")
    # The command line needs test rows; they do not affect the training.
    test = frame.iloc[:40].assign(part="test")
    pd.concat([frame, test]).to_csv(path, index=False)
    clf = private().fit(ROWS.X, ROWS.y, **ROWS.extra)
    schema = clf._kept.encoder.schema.model_copy(update={"label": "label", "group": "group"})
    (tmp_path / "schema.json").write_text(bounded(schema).model_dump_json())
    run = execute(
        Options(
            data=str(path), label="label", protected_class="1", group="group", client="client",
            split="part", epsilon=0.1, dp_epsilon=8.0, schema=tmp_path / "schema.json",
        )
    )  # fmt: skip
    np.testing.assert_allclose(
        clf.predict_proba(ROWS.X)[:, 1],
        run.trained.predictors[0].probabilities(
            run.prepared.encoder.transform(ROWS.X), np.zeros(len(ROWS.X), np.int64)
        )[:, 1],
        atol=1e-9,
    )
    save(run, tmp_path / "run")
    back = fairsilo.load(tmp_path / "run")
    assert back.dp_ == run.metrics["dp"]
    assert back.dp_epsilon == 8.0
    assert back.bounds["x0"] == (-5.0, 5.0), "a fit anew is as private as the run was"


@pytest.mark.slow
def test_one_client_adds_all_of_the_noise() -> None:
    clf = private(max_rounds=1, method="fedavg").fit(ROWS.X, ROWS.y)
    assert clf.dp_ is not None
    assert clf.dp_["noise"] == "full"
    assert np.isfinite(clf.coef_).all()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"bounds": None}, "dp_epsilon needs bounds"),
        ({"bounds": {"x0": (-5, 5)}}, "column 'x1' of X is not in bounds"),
        ({"bounds": {**BOUNDS, "x9": (0, 1)}}, "'x9', which is not a column"),
        ({"bounds": {**BOUNDS, "x0": (5, -5)}}, "bounds of column 'x0' are"),
        ({"bounds": {**BOUNDS, "c0": "abc"}}, "bounds of column 'c0' are 'abc'"),
        ({"dp_epsilon": None}, "bounds are for dp_epsilon"),
        ({"dp_epsilon": 0.0}, "`dp_epsilon` is 0"),
        ({"estimator": "mean"}, "use `estimator` pooled"),
        ({"method": "lco"}, "`method` lco has no differential privacy"),
        ({"dp_epsilon": 0.01}, "too few training rows"),
    ],
)
def test_mistakes_get_one_sentence(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        private(**given).fit(ROWS.X, ROWS.y, **ROWS.extra)
