"""What a fitted classifier says beyond its predictions, and how it is kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fairsilo
from fairsilo import FedFairClassifier
from fairsilo.run.predict import score_table
from tests.estimator.data import table

T = table(120)


@pytest.mark.parametrize("method", ["fedfair", "st"])
def test_a_saved_classifier_is_a_run_folder(tmp_path: Path, method: str) -> None:
    clf = FedFairClassifier(0.05, method=method, decide_at=None if method == "st" else 0.4)
    clf.fit(T.X, T.y, **T.extra)
    clf.save(tmp_path / "run")
    # A private training may not start from it: it tells so by having none of a promise.
    assert "dp" not in json.loads((tmp_path / "run" / "metrics.json").read_text())
    again = fairsilo.load(tmp_path / "run")
    assert again.predict_proba(T.X) == pytest.approx(clf.predict_proba(T.X), abs=1e-12)
    assert (again.predict(T.X).astype(str) == clf.predict(T.X).astype(str)).all()
    assert again.history_.equals(clf.history_)
    again.save(tmp_path / "copy")
    T.X.to_csv(tmp_path / "x.csv", index=False)
    scores, _ = score_table(tmp_path / "copy", tmp_path / "x.csv")
    assert scores["probability 1"].to_numpy() == pytest.approx(clf.predict_proba(T.X)[:, 1])


def test_scores_by_group() -> None:
    clf = FedFairClassifier(0.05).fit(T.X, T.y, **T.extra)
    found = clf.score_by_group(T.X, T.y, sensitive_features=T.group)
    said, y = clf.predict(T.X), np.asarray(T.y)
    for group, line in found.iterrows():
        own = np.asarray(T.group == group)
        assert line["rows"] == own.sum()
        assert line["accuracy"] == pytest.approx((said == y)[own].mean())
        assert line["found 1"] == pytest.approx((said == "1")[own & (y == "1")].mean())
