"""Many predictors evaluated at once give the same answers as each alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

from fairsilo.model import logistic_regression
from fairsilo.predictor import Predictor
from fairsilo.predictor.answers import on_own_rows, on_rows
from fairsilo.predictor.base import BLOCK, Plain, filled
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds
from tests.method.tasks import PAIR, Given, biased

FEDERATION = biased(0, [20, 33, 47])
RNG = np.random.default_rng(1)


def plain() -> Plain:
    model = logistic_regression(3, 2)
    return Plain(model, RNG.normal(size=model.size))


def odds(base: Predictor, stream: int) -> EqualizedOdds:
    return EqualizedOdds(base, PAIR, RNG.random(2), RNG.random(2), stream)


def calibrated(base: Predictor, stream: int) -> Calibrated:
    return Calibrated(base, PAIR, RNG.random(2), RNG.random(2), stream)


ONE = plain()
KINDS: dict[str, Sequence[Predictor]] = {
    "one model": [plain()],
    "a model each": [plain() for _ in range(3)],
    "one model repaired": [odds(ONE, k) for k in range(3)],
    "one model mixed": [calibrated(ONE, k) for k in range(3)],
    "a repaired model each": [odds(plain(), k) for k in range(3)],
    "a repair of a repair": [calibrated(odds(ONE, k), k) for k in range(3)],
    "no model of ours": [Given()],
}


@pytest.fixture(params=KINDS)
def predictors(request: pytest.FixtureRequest) -> list[Predictor]:
    return list(KINDS[request.param])


def test_of_the_same_rows(predictors: list[Predictor]) -> None:
    x, y, s = np.abs(np.tanh(FEDERATION.x)), FEDERATION.y, FEDERATION.s
    for one, (labels, losses) in zip(predictors, on_rows(predictors, x, y, s, 7), strict=True):
        np.testing.assert_array_equal(labels, one.labels(x, s, 7))
        np.testing.assert_allclose(losses, one.losses(x, y, s), rtol=1e-12)


def test_of_every_clients_own_rows(predictors: list[Predictor]) -> None:
    federation = biased(2, [20, 33, 47])
    federation.x[:] = np.abs(np.tanh(federation.x))
    twice = [predictors, predictors[::-1]]
    for own, (labels, losses) in zip(twice, on_own_rows(twice, federation, 7), strict=True):
        assert len(labels) == len(losses) == 100
        for predictor, rows in zip(cycle(own), federation.silos(), strict=False):
            x, y, s = federation.x[rows], federation.y[rows], federation.s[rows]
            np.testing.assert_array_equal(labels[rows], predictor.labels(x, s, 7))
            np.testing.assert_allclose(losses[rows], predictor.losses(x, y, s), rtol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100, 1000, 1025, BLOCK - 1, BLOCK])
def test_tables_are_filled_up_by_an_eighth_at_most(count: int) -> None:
    rows = np.ones((count, 2))
    more = filled(rows)
    assert len(more) <= count * 9 / 8
    np.testing.assert_array_equal(more[:count], rows)
    assert not more[count:].any()


def test_few_sizes_are_left() -> None:
    assert len({len(filled(np.zeros(count))) for count in range(500, 1000)}) <= 10
