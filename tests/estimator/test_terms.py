"""`terms_`: every height with what is known beside it, in words that a reader can look up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from fairsilo import FedFairClassifier, load

NAMES = ["term", "value", "height", "low", "high", "without_limit", "importance"]


def rows(n: int = 500) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    group = np.where(x + rng.normal(size=n) > 0, "a", "b")
    y = (rng.random(n) < expit(2 * x * (colour == "red") + x)).astype(int)
    return pd.DataFrame({"x": x, "colour": colour}), y, group


def test_logistic_regression_has_the_table_too(tmp_path: Path) -> None:
    frame, y, group = rows()
    clf = FedFairClassifier(0.01, penalty="auto").fit(frame, y, sensitive_features=group)
    found = clf.terms_
    assert list(found) == NAMES
    np.testing.assert_allclose(found["height"], clf.coef_[0])
    assert list(found["value"]) == ["x", "blue", "green", "red"]
    assert list(found["term"]) == ["x", "colour", "colour", "colour"]
    assert (found["low"] < found["without_limit"]).all()
    assert (found["without_limit"] < found["high"]).all()
    told = {one["name"]: one for one in clf._described["terms"]}
    assert set(found["importance"][1:]) == {told["colour"]["importance"]}
    # As in the picture: what the limit changed, and how wide the band is.
    colour = found[found["term"] == "colour"]
    changed = np.subtract(told["colour"]["height"], told["colour"]["free"])
    np.testing.assert_allclose(colour["height"] - colour["without_limit"], changed, atol=1e-5)
    wide = np.subtract(told["colour"]["high"], told["colour"]["low"])
    np.testing.assert_allclose(colour["high"] - colour["low"], wide, atol=1e-5)
    clf.save(tmp_path / "run")
    pd.testing.assert_frame_equal(load(tmp_path / "run").terms_, found)


@pytest.mark.slow
def test_cells_of_pairs_are_told_by_both_sides() -> None:
    frame, y, group = rows()
    clf = FedFairClassifier(0.5, model="additive", pairs="x:colour", penalty=1.0)
    clf.fit(frame, y, sensitive_features=group)
    found = clf.terms_
    assert found[["low", "high", "without_limit"]].isna().all(axis=None)
    assert found["importance"].gt(0).all()
    heights = found.set_index(["term", "value"])["height"]
    assert heights.index.is_unique
    cells = heights["x & colour"]
    lowest = cells.index[0].partition(" & ")[0]
    assert lowest.startswith("< ")
    assert {one.rpartition(" & ")[2] for one in cells.index} == {"red", "green", "blue"}
    red, blue = (pd.DataFrame({"x": [-9.0], "colour": [one]}) for one in ("red", "blue"))
    difference = clf.decision_function(red)[0] - clf.decision_function(blue)[0]
    expected = heights["colour", "red"] - heights["colour", "blue"]
    expected += cells[f"{lowest} & red"] - cells[f"{lowest} & blue"]
    assert difference == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_several_classes_every_figure_has_its_class() -> None:
    frame, y, group = rows()
    three = np.array(["no", "yes", "so"])[np.where(frame["x"] > 1, 2, y)]
    clf = FedFairClassifier(0.5, protected_class="yes", penalty="auto")
    clf.fit(frame, three, sensitive_features=group)
    expected = [f"{figure} {name}" for figure in NAMES[2:] for name in ("no", "so", "yes")]
    assert list(clf.terms_) == ["term", "value", *expected]
    np.testing.assert_allclose(clf.terms_["height so"], clf.coef_[1])
    assert clf.terms_.notna().all(axis=None)


def test_a_network_has_none() -> None:
    frame, y, group = rows(200)
    clf = FedFairClassifier(0.5, penalty="auto").fit(frame, y, sensitive_features=group)
    clf.set_params(model="mlp", penalty=None, max_rounds=2, solver="lbfgs")
    with pytest.warns(match="raise max_rounds"):
        clf.fit(frame, y, sensitive_features=group)
    assert not hasattr(clf, "terms_")
