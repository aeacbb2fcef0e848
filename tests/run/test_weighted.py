"""Weights of rows and classes: a row of weight u counts as u rows, everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairsilo import auditor
from fairsilo.coded import dense
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, Run, execute, save
from fairsilo.run.prepare import prepare

COLUMNS: dict[str, Any] = {
    "label": "label",
    "group": "group",
    "protected_class": "1",
    "client": "client",
}
FIGURES = {
    "train": ("loss", "accuracy", "deo", "rate_gap", "dgeo_mean", "dgeo_pooled"),
    "test": ("accuracy", "balanced_accuracy", "deo", "rate_gap", "dgeo_pooled", "auc"),
    "constant": ("accuracy", "fairness", "balanced_accuracy"),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table with weights 0 to 3, and the same with its rows repeated so often."""
    frame = make_table(240, silos=3, numbers=2, bias=1.0, seed=3)
    times = np.random.default_rng(0).integers(0, 4, len(frame))
    frame["part"] = np.where(np.arange(len(frame)) % 4 == 0, "test", "train")
    folder = tmp_path_factory.mktemp("weighted")
    weighted, repeated = folder / "weighted.csv", folder / "repeated.csv"
    frame.assign(times=times).to_csv(weighted, index=False)
    frame.loc[np.repeat(frame.index, times)].to_csv(repeated, index=False)
    return weighted, repeated


def both(tables: tuple[Path, Path], **settings: Any) -> tuple[Run, Run]:
    common = {**COLUMNS, "split": "part", **settings}
    weighted = execute(Options(data=str(tables[0]), weight="times", **common))
    return weighted, execute(Options(data=str(tables[1]), **common))


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.02},
        {"epsilon": 0.02, "estimator": "mean", "engine": "clientwise"},
        {"epsilon": 0.05, "notion": "demographic-parity", "penalty": "1"},
        {"epsilon": 0.02, "class_weight": "balanced"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_integer_weights_equal_repeated_rows(
    tables: tuple[Path, Path], settings: dict[str, Any]
) -> None:
    weighted, repeated = both(tables, **settings)
    rows, all_ = repeated.prepared, np.zeros(repeated.metrics["test"]["rows"], np.int64)
    ours, theirs = (run.trained.predictors[0] for run in (weighted, repeated))
    # One-hot columns and the intercept leave theta open, and not what it predicts.
    x = rows.test_x  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        ours.probabilities(x, all_), theirs.probabilities(x, all_), atol=1e-9
    )
    for part, names in FIGURES.items():
        for name in names:
            found, wanted = weighted.metrics[part][name], repeated.metrics[part][name]
            assert found == pytest.approx(wanted, abs=1e-9), (part, name)
    assert weighted.metrics["test"]["rows"] < repeated.metrics["test"]["rows"]
    assert weighted.metrics["unconstrained"]["test"]["accuracy"] == pytest.approx(
        repeated.metrics["unconstrained"]["test"]["accuracy"], abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["auto", "validation"])
def test_the_scale_of_weights_chooses_no_penalty(tmp_path: Path, penalty: str) -> None:
    """What is the same problem gives the same additive model, its pairs included."""
    frame = make_table(600, silos=3, numbers=3, bias=1.0, seed=4)
    frame["part"] = np.where(np.arange(len(frame)) % 3 == 0, "test", "train")
    common = {"model": "additive", "penalty": penalty, "pairs": 2, "split": "part", **COLUMNS}
    common |= {"epsilon": 0.05}

    def run(weight: float | None, costs: str | None = None) -> Run:
        rows = frame if weight is None else frame.assign(times=weight)
        rows.to_csv(tmp_path / "table.csv", index=False)
        column = None if weight is None else "times"
        path = str(tmp_path / "table.csv")
        asked = Options(path, weight=column, class_weight=costs, **common)
        return execute(asked, baseline=False)

    plain = run(None)
    x = plain.prepared.test_x  # type: ignore[attr-defined]
    s = np.zeros(plain.metrics["test"]["rows"], np.int64)
    wanted = plain.trained.predictors[0].probabilities(x, s)
    for weight, costs in ((100.0, None), (0.01, None), (None, "0=50,1=50"), (3.0, "0=9,1=9")):
        found = run(weight, costs)
        blocks, known = (one.prepared.encoder.binned for one in (found, plain))
        assert blocks is not None
        assert known is not None
        assert blocks.pairs == known.pairs
        p = found.trained.predictors[0].probabilities(x, s)
        np.testing.assert_allclose(p, wanted, atol=1e-6, err_msg=f"{weight} {costs}")


def test_what_is_said_of_rows_with_weights(tables: tuple[Path, Path]) -> None:
    run = execute(Options(data=str(tables[0]), weight="times", split="part", **COLUMNS))
    frame = pd.read_csv(tables[0])
    own = frame[(frame["part"] == "test") & (frame["times"] > 0)]["times"]
    test = run.metrics["test"]
    assert test["rows"] == len(own)
    assert test["effective_rows"] == pytest.approx(own.sum() ** 2 / (own**2).sum())
    assert sum(one["rows"] for one in test["cells"]) == pytest.approx(test["effective_rows"])
    assert "count one each" in run.metrics["certificate"]["statement"]
    assert any("same weight" in note for note in run.metrics["notes"])
    assert all("free" in one and "low" not in one for one in run.terms)


def test_a_target_in_rates_is_met_by_the_weighted_rates(tables: tuple[Path, Path]) -> None:
    common = {**COLUMNS, "split": "part", "target_deo": 0.1}
    run = execute(Options(data=str(tables[0]), weight="times", **common))
    assert run.metrics["train"]["rate_gap"] <= 0.1
    assert run.metrics["target_met"]


@pytest.mark.parametrize("given", ["balanced", "0=2,1=3.5"])
def test_class_weights_are_scikit_learns(tables: tuple[Path, Path], given: str) -> None:
    options = Options(
        data=str(tables[1]), split="part", method="fedavg", class_weight=given, penalty="1",
        **COLUMNS,
    )  # fmt: skip
    rows = prepare(options).federation
    x = dense(rows.x)
    wanted = given if given == "balanced" else {0: 2.0, 1: 3.5}
    model = LogisticRegression(C=1.0, class_weight=wanted, tol=1e-10, max_iter=1000)
    model.fit(x, rows.y)
    found = execute(options).trained.predictors[0].probabilities(rows.x, rows.s)
    np.testing.assert_allclose(found, model.predict_proba(x), atol=1e-6)


def test_weights_of_classes_do_not_change_limits(tables: tuple[Path, Path]) -> None:
    common = {**COLUMNS, "split": "part", "notion": "accuracy-parity", "epsilon": 0.02}
    run = execute(Options(data=str(tables[1]), class_weight="1=5", **common))
    assert run.metrics["train"]["dgeo_pooled"] <= 0.02 + 1e-6
    assert all("free" in one and "low" not in one for one in run.terms)  # weights are no rows


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({3: -1}, "negative in 1 rows, first in row 4"),
        ({5: np.nan, 9: np.nan}, r"not a finite number in 2 rows, first in row 6 \(empty\)"),
        ({0: np.inf}, "not a finite number in 1 rows, first in row 1"),
        (dict.fromkeys(range(60), 0), "all weights in column 'times' are zero"),
    ],
)
def test_weights_are_checked(tmp_path: Path, cells: dict[int, float], told: str) -> None:
    frame = make_table(60, silos=2).assign(times=1.0)
    for row, value in cells.items():
        frame.loc[row, "times"] = value
    frame.to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(FairSiloError, match=told):
        execute(Options(data=str(tmp_path / "table.csv"), weight="times", **COLUMNS))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"weight": "w", "method": "af"}, "`weight` is for methods that take weights"),
        ({"class_weight": "balanced", "method": "eo"}, "not for eo"),
        ({"weight": "w", "target_deo": 0.1, "target_confidence": 0.9}, "knows no weights"),
        ({"weight": "w", "dp_epsilon": 4.0}, "declare it as `maximum_weight`"),
        ({"weight": "w", "maximum_weight": 3.0}, "is for `weight` with `dp_epsilon`"),
        ({"weight": "w", "dp_epsilon": 4.0, "maximum_weight": 0.0}, "a number above 0"),
        ({"class_weight": "1=2", "dp_epsilon": 4.0}, "leave one of them out"),
        ({"class_weight": "1=0"}, "a number above 0"),
        ({"class_weight": "1=x"}, "a number above 0"),
        ({"class_weight": "1:3,0:1"}, "`class_weight` 1:3,0:1 cannot be used"),
        ({"class_weight": "1=2,1=3"}, "each once"),
        ({"weight": "w", "label": "w"}, "which is label, group, client or split"),
    ],
)
def test_what_weights_do_not_go_with(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(FairSiloError, match=told):
        Options(data="t.csv", **settings)


def test_a_weight_of_no_class_is_refused_before_training(tables: tuple[Path, Path]) -> None:
    with pytest.raises(FairSiloError, match="'9', which is no class"):
        execute(Options(data=str(tables[1]), split="part", class_weight="9=2", **COLUMNS))


def test_an_audit_finds_the_test_rows_again(tables: tuple[Path, Path], tmp_path: Path) -> None:
    run = execute(Options(data=str(tables[0]), weight="times", **COLUMNS), baseline=False)
    save(run, tmp_path)
    zero = int((pd.read_csv(tables[0])["times"] == 0).sum())
    assert any(
        one.startswith(f"{zero} of 240 rows have the weight 0") for one in run.metrics["notes"]
    )
    found = {
        rows: auditor.execute(auditor.AuditOptions(data=str(tables[0]), model=tmp_path, rows=rows))
        for rows in ("test", "train")
    }
    for rows, one in found.items():
        assert one["which"] == f"the {rows} rows of the run"
        assert one["rows"] == run.metrics[rows]["rows"]
        assert auditor.document.UNWEIGHTED in one["notes"]
