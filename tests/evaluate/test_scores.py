"""AUC, curves and thresholds from histograms, against the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score, roc_curve

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.scores import (
    CELLS,
    auc,
    auc_interval,
    best_cell,
    cells_of,
    counted,
    curves_of,
    middles,
    overall,
    share_cell,
    threshold_of,
)


def rows(n: int = 800, seed: int = 0, gap: float = 1.5) -> tuple[Floats, Ints, Ints]:
    rng = np.random.default_rng(seed)
    y, s = rng.integers(0, 2, n), rng.integers(0, 3, n)
    p = 1 / (1 + np.exp(-(rng.normal(size=n) + gap * y - 1)))
    return p, y.astype(np.int64), s.astype(np.int64)


def histogram(p: Floats, y: Ints) -> Ints:
    found: Ints = counted(np.stack([1 - p, p], axis=1), y, np.zeros_like(y), 1)[0, 0]
    return found


def test_auc_is_that_of_the_rounded_probabilities() -> None:
    p, y, s = rows()
    rounded = middles()[cells_of(p)]
    assert auc(histogram(p, y)) == pytest.approx(roc_auc_score(y, rounded), abs=1e-12)
    assert auc(histogram(p, y)) == pytest.approx(roc_auc_score(y, p), abs=2e-3)
    whole = counted(np.stack([1 - p, p], axis=1), y, s, 3)
    assert whole.shape == (3, 1, 2, CELLS)
    assert overall(whole) == auc(histogram(p, y))
    for g in range(3):
        assert auc(whole[g, 0]) == pytest.approx(roc_auc_score(y[s == g], rounded[s == g]))
    assert auc(histogram(p, np.zeros_like(y))) is None


def test_the_variance_is_delongs() -> None:
    """Against the placements of single rows, one by one."""
    p, y, _ = rows(60)
    rounded = middles()[cells_of(p)]
    own, others = rounded[y == 1], rounded[y == 0]

    def places(a: Floats, b: Floats) -> Floats:
        return np.array([np.mean((b < one) + 0.5 * (b == one)) for one in a])

    variance = sum(places(a, b).var(ddof=1) / len(a) for a, b in ((own, others), (others, own)))
    low, high = auc_interval(histogram(p, y))  # type: ignore[misc]
    assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-6)


@pytest.mark.slow
def test_the_interval_covers() -> None:
    truth = auc(histogram(*rows(200_000, seed=1)[:2]))
    assert truth is not None
    held = 0
    for seed in range(300):
        low, high = auc_interval(histogram(*rows(150, seed=seed + 10)[:2]))  # type: ignore[misc]
        held += low <= truth <= high
    assert held >= 270


def test_curves_are_those_of_the_rows() -> None:
    p, y, s = rows(300)
    rounded = middles()[cells_of(p)]
    [found] = curves_of(counted(np.stack([1 - p, p], 1), y, s, 3), ["a", "b", "c"], ["no", "yes"])
    everyone = found["lines"][0]
    assert [one["group"] for one in found["lines"]] == ["all", "a", "b", "c"]
    false, hits, _ = roc_curve(y, rounded, drop_intermediate=False)
    known = set(zip(false.round(9), hits.round(9), strict=True))
    assert all((round(a, 9), round(b, 9)) in known for a, b in everyone["roc"])
    assert everyone["roc"][-1] == [1.0, 1.0]
    precision, recall, _ = precision_recall_curve(y, rounded)
    known = set(zip(recall.round(9), precision.round(9), strict=True))
    assert all((round(a, 9), round(b, 9)) in known for a, b in everyone["precision_recall"])
    size = np.array([n for _, _, n in everyone["calibration"]])
    right = np.array([share for _, share, _ in everyone["calibration"]])
    assert size.sum() == 300
    assert right @ size == pytest.approx(y.sum())


@pytest.mark.parametrize("aim", ["balanced", "f1"])
def test_the_best_threshold_is_the_best_of_all(aim: str) -> None:
    p, y, _ = rows(400, seed=3)
    cell = best_cell(histogram(p, y), aim)

    def value(t: float) -> float:
        said = p >= t
        if aim == "f1":
            return float(f1_score(y, said))
        return float(said[y == 1].mean() - said[y == 0].mean())

    every = [value(threshold_of(k)) for k in range(CELLS)]
    assert value(threshold_of(cell)) == pytest.approx(max(every))


def test_a_share_of_positives() -> None:
    p, y, _ = rows(2000)
    for share in (0.0, 0.1, 0.5, 1.0):
        cell = share_cell(histogram(p, y), share)
        assert np.mean(p >= threshold_of(cell)) == pytest.approx(share, abs=0.02)


def test_a_share_smaller_than_the_highest_cell_is_given_that_cell() -> None:
    """Nearly all rows are nearly sure: no edge is above them."""
    sure = histogram(np.full(100, 0.9999), np.ones(100, np.int64))
    assert share_cell(sure, 0.01) == sure.shape[1] - 1
