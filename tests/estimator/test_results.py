"""What a fitted classifier says beyond its predictions, and how it is kept."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairsilo
from fairsilo import FedFairClassifier
from fairsilo.errors import FairSiloWarning
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


def test_a_run_folder_a_report_and_a_card_of_rows_that_were_held_back(tmp_path: Path) -> None:
    rows = table(300)
    train, test = np.arange(300) < 220, np.arange(300) >= 220
    clf = FedFairClassifier(0.05)
    clf.fit(
        rows.X[train], rows.y[train], sensitive_features=rows.group[train],
        clients=rows.client[train],
    )  # fmt: skip
    clf = pickle.loads(pickle.dumps(clf))
    held: dict[str, Any] = {"sensitive_features": rows.group[test], "clients": rows.client[test]}
    clf.to_run(tmp_path / "run", rows.X[test], rows.y[test], **held)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["rows"] == 80
    assert metrics["train"]["rows"] == 220
    assert metrics["test"]["accuracy"] == pytest.approx(clf.score(rows.X[test], rows.y[test]))
    assert metrics["train"]["dgeo_pooled"] == pytest.approx(clf.constraints_["D"].abs().max())
    again = fairsilo.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(rows.X), clf.predict_proba(rows.X))
    page = clf.report(rows.X[test], rows.y[test], **held)
    assert "provided the model never saw them" in page.html
    assert "that the model did not see, its" not in page.html
    # Nobody knows whether training saw rows that are given later.
    assert "rows given for testing" in page.html
    assert "rows it never saw" not in page.html
    assert any("looks better than it is" in note for note in metrics["notes"])
    assert page.html == (tmp_path / "run" / "report.html").read_text()
    assert page._repr_html_().startswith("<iframe")
    card = clf.card(rows.X[test], rows.y[test], **held)
    assert card.startswith("# Model card: label\n")
    assert "\n220 training rows of" in card
    assert "and \N{EN DASH} as the average" not in card
    with pytest.raises(ValueError, match="which training never saw"):
        clf.report(rows.X[test], ["new"] * 80, **held)
    with pytest.raises(ValueError, match="its report in its folder"):
        again.report(rows.X[test], rows.y[test], **held)


def test_y_keeps_its_name_and_the_chosen_threshold_is_told(tmp_path: Path) -> None:
    y = T.y.rename("approved")
    clf = FedFairClassifier(0.5, decide_at="share=0.2").fit(T.X, y, **T.extra)
    assert 0 < clf.decide_at_ < 1
    assert (clf.predict(T.X) == clf.classes_[1]).mean() == pytest.approx(0.2, abs=0.02)
    assert clf.card(T.X, y, **T.extra).startswith("# Model card: approved\n")
    clf.save(tmp_path / "run")
    assert fairsilo.load(tmp_path / "run").decide_at_ == clf.decide_at_
    # A name that is a column's stays the column's.
    named = FedFairClassifier(0.5).fit(T.X, y.rename(T.X.columns[0]), **T.extra)
    assert named.decide_at_ == 0.5
    grouped = FedFairClassifier(0.5).fit(T.X, y.rename("group"), **T.extra)
    np.testing.assert_array_equal(grouped.coef_, named.coef_)


def test_a_column_that_gives_the_label_away_is_named() -> None:
    answer = "is " + T.y.astype(str)
    with pytest.warns(FairSiloWarning, match="'answer' alone predicts .* leave it out of X"):
        FedFairClassifier(0.5, method="fedavg").fit(T.X.assign(answer=answer), T.y, **T.extra)
