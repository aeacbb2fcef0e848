"""Differential privacy in the estimator: same result as a private run, declared bounds, cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairsilo
from fairsilo import FedFairClassifier
from fairsilo.estimator.settings import options_of
from fairsilo.run import Options, execute, save
from tests.estimator.data import table
from tests.network.silos import bounded

ROWS = table(800, silos=4)
SILOS = [f"silo{k}" for k in range(4)]
BOUNDS: dict[str, Any] = {
    **{f"x{k}": (-5, 5) for k in range(4)}, "c0": ["a", "b", "c"], "group": ["g0", "g1"]
}  # fmt: skip


def private(**given: Any) -> FedFairClassifier:
    known = {"bounds": BOUNDS, "classes": ["0", "1"], "groups": ["g0", "g1"], "client_names": SILOS}
    return FedFairClassifier(**{"epsilon": 0.1, "dp_epsilon": 8.0, **known, **given})


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
            client_names=tuple(SILOS), split="part", epsilon=0.1, dp_epsilon=8.0,
            schema=tmp_path / "schema.json",
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
    assert tuple(back.dp_split) == Options.dp_split
    assert back.bounds["x0"] == (-5.0, 5.0), "a fit anew is as private as the run was"
    assert (back.classes, back.client_names) == ([0, 1], SILOS)


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
        ({"bounds": {**BOUNDS, "x0": [-5, 5]}}, r"bounds of column 'x0' are \[-5, 5\]: give \(low"),
        ({"bounds": {**BOUNDS, "x0": (-5, 0, 5)}}, "bounds of column 'x0' are"),
        ({"dp_epsilon": None}, "bounds are for dp_epsilon"),
        ({"dp_epsilon": None, "bounds": None}, "classes are for dp_epsilon"),
        ({"classes": None}, "dp_epsilon needs classes"),
        ({"classes": [1]}, "fewer than two"),
        ({"groups": None}, "dp_epsilon needs groups"),
        ({"groups": ["g0"]}, "fewer than two"),
        ({"client_names": None}, "dp_epsilon needs client_names"),
        ({"dp_epsilon": 10_000.0}, "at most 100"),
        ({"dp_epsilon": 0.0}, "`dp_epsilon` is 0"),
        ({"estimator": "mean"}, "use `estimator` pooled"),
        ({"method": "lco"}, "`method` lco has no differential privacy"),
        ({"dp_epsilon": 0.01}, "too few training rows"),
        ({"dp_clip": 0.0}, "`dp_clip` is 0"),
        ({"dp_split": (0.5, 0.5)}, r"dp_split is \(0.5, 0.5\): give three shares"),
        ({"dp_split": [0.5, 0.5, 0.5]}, "add up to 1"),
    ],
)
def test_mistakes_get_one_sentence(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        private(**given).fit(ROWS.X, ROWS.y, **ROWS.extra)


def test_clip_and_shares_are_those_of_the_run() -> None:
    found = options_of(private(dp_clip=2, dp_split=[0.2, 0.5, 0.3]).get_params())
    assert (found.dp_clip, found.dp_split) == (2.0, (0.2, 0.5, 0.3))
    usual = options_of(private().get_params())
    assert (usual.dp_clip, usual.dp_split) == (Options.dp_clip, Options.dp_split)


def extra(**cells: Any) -> tuple[pd.DataFrame, Any, Any, Any]:
    """The rows and one more, like the first but for these cells."""
    cells = {"y": "1", "group": "g0", "client": "silo0", **cells}
    row = ROWS.X.iloc[:1].copy().astype(object)
    for name in ("x0", "c0"):
        if name in cells:
            row[name] = cells[name]
    y = pd.Series([*ROWS.y, cells["y"]])
    groups = pd.Series([*ROWS.extra["sensitive_features"], cells["group"]], name="group")
    clients = pd.Series([*ROWS.extra["clients"], cells["client"]])
    return pd.concat([ROWS.X, row], ignore_index=True).infer_objects(), y, groups, clients


def described(clf: FedFairClassifier) -> tuple[Any, ...]:
    """What a fit says beside noisy numbers."""
    dp = clf.dp_ or {}
    return (
        clf.classes_.tolist(), clf.groups_.tolist(), clf.clients_.tolist(),
        clf._kept.encoder.schema, clf.constraints_["pair"].tolist(),
        *(dp.get(key) for key in ("noise", "smallest_sum", "epsilon_spent")),
    )  # fmt: skip


ODD_ROWS: list[dict[str, Any]] = [
    {"y": "2"}, {"y": None, "client": None}, {"group": "g9", "x0": "text"}, {"client": "silo9"},
    {"group": None, "x0": np.inf, "c0": "new"}, {"x0": None, "c0": None},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whatever_is_in_a_row_more_only_noise_tells() -> None:
    """Two tables that differ by one row give fits that differ in noisy numbers alone."""
    clf = private(max_rounds=1)
    wanted = described(clf.fit(ROWS.X, ROWS.y, **ROWS.extra))
    for cells in ODD_ROWS:
        x, y, groups, clients = extra(**cells)
        assert described(clf.fit(x, y, sensitive_features=groups, clients=clients)) == wanted


@pytest.mark.parametrize("cells", [{"y": "2"}, {"group": "g9"}, {"client": "silo9"}, {"c0": "new"}])
def test_the_same_rows_tell_where_nothing_is_declared(cells: dict[str, Any]) -> None:
    """So that the test above is known to bite."""
    clf = FedFairClassifier(0.1, method="fedavg")
    wanted = described(clf.fit(ROWS.X, ROWS.y, **ROWS.extra))
    x, y, groups, clients = extra(**cells)
    assert described(clf.fit(x, y, sensitive_features=groups, clients=clients)) != wanted


@pytest.mark.slow
def test_two_clients_with_rows_of_four_share_the_noise_of_four() -> None:
    """How many clients there are, and so the noise, is declared."""
    few = ROWS.extra["clients"].isin(["silo0", "silo1"])
    clf = private(max_rounds=1, method="fedavg")
    clf.fit(ROWS.X[few], ROWS.y[few], clients=ROWS.extra["clients"][few])
    assert clf.dp_ is not None
    assert (clf.dp_["noise"], clf.dp_["smallest_sum"]) == ("shared", 3)
    assert clf.clients_.tolist() == SILOS
