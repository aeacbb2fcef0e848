"""`fairsilo.load`: a run folder as a fitted estimator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import fairsilo
from fairsilo.data import make_table, read_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute, save
from fairsilo.run.predict import score_table


def run_folder(tmp_path: Path, method: str, model: str = "lr") -> Path:
    make_table(400, silos=3, seed=2, missing=0.05).to_csv(tmp_path / "t.csv", index=False)
    options = Options(
        str(tmp_path / "t.csv"), label="label", protected_class="1", group="group",
        client="client", method=method, model=model, epsilon=0.03, rounds=30,
    )  # fmt: skip
    save(execute(options, baseline=False), tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"),
    [("fedfair", "mlp"), ("lco", "lr"), ("fedavg", "lr"), ("st", "lr"), ("ceo", "lr")],
)
def test_predicts_what_the_command_line_predicts(method: str, model: str, tmp_path: Path) -> None:
    folder = run_folder(tmp_path, method, model)
    clf = fairsilo.load(folder)
    frame = read_table(tmp_path / "t.csv")
    X, s = frame[list(clf.feature_names_in_)], frame["group"]
    scores, _ = score_table(folder, tmp_path / "t.csv")
    extra = {"sensitive_features": s} if method in ("eo", "ceo") else {}
    np.testing.assert_array_equal(clf.predict(X, **extra), scores["predicted"].astype(int))
    np.testing.assert_array_equal(
        clf.predict_proba(X, **extra), scores[["probability 0", "probability 1"]]
    )
    assert clf.score(X, frame["label"], **extra) > 0.6
    rows = {"fedfair": 1, "lco": 3}.get(method, 1)
    assert len(clf.constraints_) == rows
    assert list(clf.clients_) == ["silo0", "silo1", "silo2"]


@pytest.mark.slow
def test_holds_the_results_and_the_parameters_of_the_run(tmp_path: Path) -> None:
    clf = fairsilo.load(run_folder(tmp_path, "fedfair"))
    assert clf.get_params()["epsilon"] == 0.03
    assert clf.protected_class == 1
    assert abs(clf.constraints_["D"].item()) <= 0.03 + 1e-6
    assert len(clf.history_) == clf.n_iter_
    assert clf.converged_
    assert clf.coef_.shape == (1, len(clf.encoded_names_))
    frame = read_table(tmp_path / "t.csv")
    X = frame[list(clf.feature_names_in_)]
    again = clone(clf).fit(X, frame["label"], sensitive_features=frame["group"])
    assert abs(again.constraints_["D"].item()) <= 0.03 + 1e-6
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame)


@pytest.mark.slow
def test_texts_stay_texts(tmp_path: Path) -> None:
    frame = make_table(300, seed=2)
    frame["label"] = np.where(frame["label"] == "1", "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = Options(
        str(tmp_path / "t.csv"), label="label", protected_class="yes", group="group",
        client="client",
    )  # fmt: skip
    save(execute(options, baseline=False), tmp_path / "run")
    clf = fairsilo.load(tmp_path / "run")
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.score(frame[list(clf.feature_names_in_)], frame["label"]) > 0.6


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError, match="does not exist"):
        fairsilo.load(tmp_path)
    folder = run_folder(tmp_path, "fedfair")
    (folder / "history.parquet").write_bytes(b"no table")
    with pytest.raises(FairSiloError, match=r"history\.parquet cannot be read"):
        fairsilo.load(folder)
