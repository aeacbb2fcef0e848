"""Evidence summed over silos against calculations by hand from all rows, or all silos."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.evaluate import Tally
from fairsilo.evaluate.audit import Auditor
from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.metrics import dgeo_mean, dgeo_pooled
from fairsilo.fairness import Dgeo

PAIRS = (Dgeo(0, 1, 1), Dgeo(0, 2, 1), Dgeo(1, 2, 1))
SHAPE: dict[str, Any] = {"groups": 3, "classes": 2}
NAMES = Names(("x", "y", "z"), ("no", "yes"))


def rows(seed: int, n: int = 120, silos: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    y, s, predicted = rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    return y, s, predicted, rng.exponential(size=n), rng.integers(0, silos, n)


def silos_of(table: tuple[np.ndarray, ...]) -> list[Tally]:
    y, s, predicted, loss, silo = table
    return [
        Tally.of(y[i], s[i], predicted[i], loss[i], **SHAPE)
        for i in (silo == k for k in np.unique(silo))
    ]


@given(st.integers(0, 10_000))
def test_both_estimators_and_their_variances_are_those_of_the_rows(seed: int) -> None:
    table = rows(seed)
    y, s, predicted, loss, silo = table
    tallies = silos_of(table)
    evidence = reduce(add, (Evidence.of_silo(one, PAIRS) for one in tallies))
    found = Auditor(PAIRS, NAMES, draws=10).findings(evidence)
    whole = reduce(add, tallies)
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(dgeo_pooled(whole, PAIRS))
    assert found["dgeo"]["mean"]["value"] == pytest.approx(dgeo_mean(tallies, PAIRS))
    for k, pair in enumerate(PAIRS):
        for values, gaps in ((loss, evidence.losses), ((predicted == y) * 1.0, evidence.rates)):
            ds, variances = [], []
            for i in np.unique(silo):
                cells = [values[(silo == i) & (y == pair.c) & (s == g)] for g in (pair.a, pair.b)]
                if all(len(cell) for cell in cells):
                    ds.append(cells[0].mean() - cells[1].mean())
                    if all(len(cell) > 1 for cell in cells):
                        variances.append(sum(cell.var(ddof=1) / len(cell) for cell in cells))
            assert gaps.mean(k) == pytest.approx(np.mean(ds) if ds else None)
            if len(variances) == len(ds) and ds:
                want = sum(variances) / len(ds) ** 2
                assert gaps.variance_of_mean(k) == pytest.approx(want, abs=1e-12)
            else:
                assert gaps.variance_of_mean(k) is None


@given(st.integers(0, 10_000), st.integers(0, 12))
def test_small_cells_leave_a_count_of_silos_and_nothing_else(seed: int, least: int) -> None:
    tallies = silos_of(rows(seed, n=90))
    kept = [Evidence.of_silo(one, PAIRS, least) for one in tallies]
    for tally, evidence in zip(tallies, kept, strict=True):
        small = (tally.cells > 0) & (tally.cells < least)
        np.testing.assert_array_equal(evidence.hidden, small)
        np.testing.assert_array_equal(evidence.tally.cells, np.where(small, 0, tally.cells))
        assert not evidence.tally.losses[small].any()
        assert not evidence.tally.squares[small].any()
        for k, pair in enumerate(PAIRS):
            if small[pair.a, pair.c] or small[pair.b, pair.c]:
                assert evidence.losses.silos[k] == 0
                assert evidence.losses.total[k] == evidence.rates.total[k] == 0


@given(st.integers(0, 10_000))
def test_the_vector_is_the_evidence_and_vectors_add_up(seed: int) -> None:
    parts = [Evidence.of_silo(one, PAIRS, 4) for one in silos_of(rows(seed))]
    total = reduce(add, parts)
    vector = sum(part.to_vector() for part in parts)
    assert isinstance(vector, np.ndarray)
    assert vector.size == Evidence.length(3, 2, len(PAIRS))
    back = Evidence.from_vector(vector, 3, 2, len(PAIRS))
    np.testing.assert_allclose(back.to_vector(), total.to_vector(), atol=1e-12)
    np.testing.assert_array_equal(back.tally.counts, total.tally.counts)
    np.testing.assert_array_equal(back.hidden, total.hidden)
    auditor = Auditor(PAIRS, NAMES, draws=50)
    assert str(auditor.findings(back))[:200] == str(auditor.findings(total))[:200]


def test_without_losses_or_rows_figures_are_none() -> None:
    y, s, predicted, loss, silo = rows(3)
    table = (y, np.where(s == 2, 1, s), predicted, np.full_like(loss, np.nan), silo)
    evidence = reduce(add, (Evidence.of_silo(one, PAIRS) for one in silos_of(table)))
    found = Auditor(PAIRS, NAMES, draws=10, fewest=2).findings(evidence)
    assert found["dgeo"]["pooled"] == {"value": None, "normal": None, "chebyshev": None}
    assert found["deo"]["pooled"]["value"] is None
    first = found["pairs"][0]
    assert first["rate_gap"]["pooled"]["value"] is not None
    assert first["rate_gap"]["mean"]["normal"] is not None
    assert first["loss_gap"]["mean"]["value"] is None
    assert found["pairs"][1]["rate_gap"]["pooled"]["bootstrap"] is None
