"""Row weights against calculations by hand, and refused inputs."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo, Estimator, check_defined, count_cells
from fairsilo.fairness.weigh import totals_of, weighted
from fairsilo.partition.federation import Federation

PAIR = Dgeo(0, 1, 1)


def federation() -> Federation:
    """Client 0: two rows of (0,1), one of (1,1), one of class 0. Client 1: three rows of (1,1)."""
    s = np.array([0, 0, 1, 0, 1, 1, 1])
    y = np.array([1, 1, 1, 0, 1, 1, 1])
    client = np.array([0, 0, 0, 0, 1, 1, 1])
    return Federation.of(np.zeros((7, 1)), y, s, client, groups=2, classes=2)


def test_weights_by_hand() -> None:
    rows = federation()
    totals = totals_of(rows, [PAIR])
    np.testing.assert_array_equal(totals.cells, [[1, 2], [0, 4]])
    assert totals.taking_part.tolist() == [1]
    _, w, pooled = weighted(rows, [PAIR], "pooled")
    np.testing.assert_allclose(w, 1 / 7)
    np.testing.assert_allclose(pooled[0], [1 / 2, 1 / 2, -1 / 4, 0, -1 / 4, -1 / 4, -1 / 4])
    # Client 1 has no row in (0, 1): it takes no part, and N = 1.
    both: tuple[Estimator, ...] = ("mean", "local")
    for estimator in both:
        weights = weighted(rows, [PAIR], estimator)[2]
        np.testing.assert_allclose(weights[0], [1 / 2, 1 / 2, -1, 0, 0, 0, 0])


def test_small_cells_by_hand() -> None:
    """With a minimum of two rows per cell, client 0's single row of (1,1) is left out."""
    rows = federation()
    totals = totals_of(rows, [PAIR], min_cell=2)
    np.testing.assert_array_equal(totals.cells, [[0, 2], [0, 3]])
    assert totals.rows == 7
    assert totals.taking_part.tolist() == [0]
    _, w, pooled = weighted(rows, [PAIR], "pooled", min_cell=2)
    np.testing.assert_allclose(w, 1 / 7)
    np.testing.assert_allclose(pooled[0], [1 / 2, 1 / 2, 0, 0, -1 / 3, -1 / 3, -1 / 3])
    assert not weighted(rows, [PAIR], "mean", min_cell=2)[2].any()


def test_every_constraint_weighs_zero_in_sum() -> None:
    rng = np.random.default_rng(0)
    n = 500
    rows = Federation.of(
        np.zeros((n, 1)), rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 9, n),
        groups=3, classes=3,
    )  # fmt: skip
    pairs = [Dgeo(0, 1, 2), Dgeo(0, 2, 0), Dgeo(1, 2, 1)]
    both: tuple[Estimator, ...] = ("mean", "pooled")
    for estimator in both:
        v = weighted(rows, pairs, estimator)[2]
        np.testing.assert_allclose(v.sum(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(np.maximum(v, 0).sum(axis=1), 1)


def test_an_unmeasurable_constraint_is_refused() -> None:
    names = {"groups": ("a", "b"), "classes": ("no", "yes")}
    rows = federation()
    with pytest.raises(FairSiloError, match="'b' has no training row of class 'no'"):
        check_defined([Dgeo(0, 1, 0)], "pooled", totals_of(rows, [Dgeo(0, 1, 0)]), **names)
    apart = Federation.of(
        np.zeros((2, 1)), np.array([1, 1]), np.array([0, 1]), np.array([0, 1]),
        groups=2, classes=2,
    )  # fmt: skip
    totals = totals_of(apart, [PAIR])
    check_defined([PAIR], "pooled", totals, **names)
    with pytest.raises(FairSiloError, match="`estimator` pooled"):
        check_defined([PAIR], "mean", totals, **names)


def test_cells_are_counted() -> None:
    y, s = np.array([0, 1, 1, 2]), np.array([1, 1, 0, 1])
    np.testing.assert_array_equal(count_cells(y, s, 2, 3), [[0, 1, 0], [1, 1, 1]])


def test_test_rows_and_empty_clients_are_left_out() -> None:
    client = np.array([3, -1, 0, 3, -2])
    rows = Federation.of(
        np.arange(5.0)[:, None], np.zeros(5, int), np.zeros(5, int), client, groups=1, classes=1
    )
    assert rows.clients == 2
    np.testing.assert_array_equal(rows.x[:, 0], [2, 0, 3])
    assert [part.rows for part in rows.parts()] == [1, 2]
    with pytest.raises(FairSiloError, match="no training rows"):
        Federation.of(
            np.zeros((1, 1)), np.zeros(1, int), np.zeros(1, int), np.array([-1]),
            groups=1, classes=1,
        )  # fmt: skip
