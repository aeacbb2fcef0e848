"""A whole training on codes ends where the same training on the dense matrix does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairsilo.coded import Coded, dense
from fairsilo.engine import Clientwise, Pooled, silos_of
from fairsilo.fairness import Dgeo
from fairsilo.model import logistic_regression
from fairsilo.model.scores import linear_scores, probabilities_of
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem
from fairsilo.solver import Newton

WIDTHS = (0, 4, 9, 12, 0, 30)
"""Two numbers, and categories of which some share a byte."""


@pytest.mark.parametrize("engine", [Pooled, lambda rows: Clientwise(silos_of(rows))])
@pytest.mark.parametrize("classes", [2, 3])
def test_newton_on_codes_finds_the_model_of_the_matrix(
    engine: Callable[[Federation], Any], classes: int
) -> None:
    rng, n = np.random.default_rng(0), 2400
    columns = [rng.integers(0, w, n) if w else rng.normal(size=n) for w in WIDTHS]
    columns[3][rng.random(n) < 0.1] = -1  # Values that training did not know.
    score = columns[0] + 0.3 * columns[1] + rng.logistic(size=n)
    s = (columns[2] < 4).astype(int)
    y = np.digitize(score + s, [0.5, 2.0][: classes - 1])
    codes, client = Coded.of(WIDTHS, columns, n), rng.integers(0, 3, n)
    assert isinstance(codes, Coded)
    assert codes.codes.shape[1] < 4
    model, ends = logistic_regression(codes.shape[1], classes), []
    for x in (codes, dense(codes)):
        rows = Federation.of(x, y, s, client, groups=2, classes=classes)
        problem = Problem(model, (Dgeo(0, 1, 1),), 0.02, "pooled", Newton(), 60, 0)
        outcome = engine(rows).solve(problem)
        end = outcome.last
        assert end.residual < 1e-6
        assert abs(end.d[0]) == pytest.approx(0.02, abs=1e-6)  # The limit binds.
        p = probabilities_of(linear_scores(np.asarray(outcome.theta), rows.x, classes))
        ends.append((end.loss, end.d, end.mu, p))
    for ours, reference in zip(*ends, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-9)
