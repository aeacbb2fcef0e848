"""CEO against cases computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairsilo.arrays import Floats, Ints
from fairsilo.fairness import Dgeo
from fairsilo.method.ceo import ceo
from fairsilo.method.fedavg import fedavg
from fairsilo.predictor.calibrated import Calibrated, fit_calibrated
from fairsilo.predictor.equalized_odds import fit_equalized_odds
from tests.method.tasks import PAIR, Given, biased, hits_of, posed, rows

Table = tuple[Floats, Ints, Ints]


def fit(table: Table) -> Calibrated:
    return fit_calibrated(Given(), PAIR, hits_of(Given(), PAIR, *table))


# Group 0: br 1/4, cost 0.3; its trivial predictor costs 3/4. Group 1: br 1/2, cost 0.5.
UNEVEN = rows((0, 1, 0.7, 1), (0, 0, 0.1, 3), (1, 1, 0.5, 2), (1, 0, 0.3, 2))


def test_the_cheaper_group_is_mixed() -> None:
    found = fit(UNEVEN)
    np.testing.assert_allclose(found.mix, [(0.5 - 0.3) / (0.75 - 0.3), 0], atol=1e-12)
    np.testing.assert_allclose(found.base_rate, [0.25, 0.5])


def test_no_more_than_everybody_is_mixed() -> None:
    """The trivial predictor costs 1/2 and the other group 0.6: (0.6 - 0.3) / (0.5 - 0.3) > 1."""
    table = rows((0, 1, 0.7, 2), (0, 0, 0.1, 2), (1, 1, 0.4, 2), (1, 0, 0.3, 2))
    np.testing.assert_array_equal(fit(table).mix, [1, 0])


def test_either_group_can_be_the_cheaper_one() -> None:
    x, y, s = UNEVEN
    found = fit((x, y, 1 - s))
    np.testing.assert_allclose(found.mix, [0, 0.2 / 0.45])


def test_nothing_is_mixed_where_the_trivial_predictor_is_no_worse() -> None:
    table = rows((0, 1, 0.4, 2), (0, 0, 0.2, 2), (1, 1, 0.3, 2), (1, 0, 0.2, 2))
    np.testing.assert_array_equal(fit(table).mix, [0, 0])


def test_mixing_makes_the_costs_equal_in_expectation() -> None:
    x, y, s = UNEVEN
    score = fit(UNEVEN).probabilities(x, s)[:, 1]
    fn = [1 - score[(s == g) & (y == 1)].mean() for g in (0, 1)]
    assert fn[0] == pytest.approx(fn[1])


def test_labels_losses_and_draws() -> None:
    """Base rate 1/4: a mixed row of group 0 is labelled 0; its loss is that of probability 1/4."""
    x, y, s = rows((0, 1, 0.9, 3000), (1, 1, 0.9, 3000), (2, 1, 0.9, 3))
    found = Calibrated(Given(), PAIR, np.array([0.4, 0.0]), np.array([0.25, 0.5]))
    labels = found.labels(x, s, 7)
    assert np.mean(labels[s == 0] == 0) == pytest.approx(0.4, abs=0.03)
    assert labels[s != 0].all()
    np.testing.assert_array_equal(labels, found.labels(x, s, 7))
    assert (labels != found.labels(x, s, 8)).any()
    losses = found.losses(x, y, s)
    assert losses[0] == pytest.approx(-0.4 * np.log(0.25) - 0.6 * np.log(0.9))
    np.testing.assert_allclose(losses[s != 0], -np.log(0.9))


def test_positive_means_the_protected_class() -> None:
    x, y, s = UNEVEN
    swapped = Dgeo(0, 1, 0)
    other = fit_calibrated(Given(), swapped, hits_of(Given(), swapped, 1 - x, 1 - y, s))
    np.testing.assert_allclose(other.mix, fit(UNEVEN).mix)
    np.testing.assert_allclose(
        other.probabilities(1 - x, s), fit(UNEVEN).probabilities(x, s)[:, ::-1]
    )


def test_a_missing_class_leaves_the_base_as_it_is() -> None:
    x, y, s = rows((0, 1, 0.7, 3), (1, 1, 0.5, 2), (1, 0, 0.3, 2))
    found = fit((x, y, s))
    np.testing.assert_array_equal(found.labels(x, s, 0), Given().labels(x, s))
    np.testing.assert_allclose(found.losses(x, y, s), Given().losses(x, y, s))
    np.testing.assert_allclose(found.probabilities(x, s), Given().probabilities(x, s))


def test_as_a_method_it_follows_fedavg_and_says_so() -> None:
    federation = biased(1, [200, 210])
    # Without the shift of the last feature the groups differ little enough for mixing.
    x = federation.x - np.eye(3)[2] * federation.s[:, None]
    federation = replace(federation, x=x, y=(x.sum(axis=1) + federation.x[:, 0] ** 3 > 0) * 1)
    trained = ceo(*posed(federation))
    free = fedavg(*posed(federation))
    assert len(trained.predictors) == 2
    assert trained.outcome.rounds == free.outcome.rounds
    assert (trained.numbers_up, trained.notes) == (free.numbers_up, ())
    for i, predictor in enumerate(trained.predictors):
        assert isinstance(predictor, Calibrated)
        assert 0 < predictor.mix.max() < 1
        own = federation.only(i)
        score = predictor.probabilities(own.x, own.s)[:, 1]
        fn = [1 - score[(own.s == g) & (own.y == 1)].mean() for g in (0, 1)]
        assert fn[0] == pytest.approx(fn[1], abs=1e-9)


def test_one_repair_can_follow_another() -> None:
    table = rows((0, 1, 0.9, 9), (0, 0, 0.2, 9), (1, 1, 0.7, 6), (1, 1, 0.4, 3), (1, 0, 0.3, 9))
    first = fit(table)
    second = fit_equalized_odds(first, PAIR, hits_of(first, PAIR, *table))
    assert set(second.labels(table[0], table[2], 0)) <= {0, 1}
