"""EO against a direct solution of its linear program and against cases solved by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.arrays import Floats, Ints
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo
from fairsilo.method import METHODS
from fairsilo.method.eo import eo
from fairsilo.method.fedavg import fedavg
from fairsilo.method.repair import FITS, repaired
from fairsilo.model import logistic_regression
from fairsilo.partition.federation import Federation
from fairsilo.predictor.equalized_odds import EqualizedOdds, Variant, fit_equalized_odds
from tests.method.tasks import PAIR, Given, biased, hits_of, posed, rows

VARIANTS: tuple[Variant, ...] = ("joint", "conditional")


def fit(x: Floats, y: Ints, s: Ints, variant: Variant = "joint") -> EqualizedOdds:
    return fit_equalized_odds(Given(), PAIR, hits_of(Given(), PAIR, x, y, s), variant=variant)


def naive(x: Floats, y: Ints, s: Ints, variant: Variant) -> tuple[Floats, Floats]:
    """Row by row: slope of the objective, and A of A v = 0, v = (p2p, n2p) of groups a and b."""
    cost, rates = np.zeros(4), np.zeros((2, 4))
    for j in range(len(y)):
        group = s == s[j]
        keep_slot = 2 * int(s[j]) + (0 if x[j, 0] > 0.5 else 1)
        weight = {
            "joint": 1 / len(y),
            "conditional": 1 / np.sum(group & (y == y[j])),
        }[variant]
        # The variable is the chance of a positive label; a negative row errs with it.
        cost[keep_slot] += weight * (1 if y[j] == 0 else -1)
        sign = 1 if s[j] == 0 else -1
        share = sign / np.sum(group & (y == y[j]))
        rates[y[j], keep_slot] += share
    return cost, rates


def best_corner(cost: Floats, a: Floats) -> float:
    """The lowest objective over all corners: two variables at a bound, two from the equations."""
    lowest = np.inf
    for free in itertools.combinations(range(4), 2):
        fixed = [k for k in range(4) if k not in free]
        if abs(np.linalg.det(a[:, free])) < 1e-12:
            continue
        for values in itertools.product([0.0, 1.0], repeat=2):
            v = np.zeros(4)
            v[fixed] = values
            v[list(free)] = np.linalg.solve(a[:, free], -a[:, fixed] @ np.array(values))
            if (v > -1e-9).all() and (v < 1 + 1e-9).all():
                lowest = min(lowest, float(cost @ v))
    return lowest


@given(st.integers(0, 2**31), st.sampled_from(VARIANTS))
def test_no_corner_of_the_program_is_better(seed: int, variant: Variant) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    y, s = rng.integers(0, 2, n), rng.integers(0, 2, n)
    y[:4], s[:4] = [0, 1, 0, 1], [0, 0, 1, 1]
    x = np.clip(rng.random((n, 1)) * 0.7 + 0.3 * y[:, None], 0.01, 0.99)
    found = fit(x, y, s, variant)
    v = np.array([found.p2p[0], found.n2p[0], found.p2p[1], found.n2p[1]])
    cost, a = naive(x, y, s, variant)
    np.testing.assert_allclose(a @ v, 0, atol=1e-8)
    assert ((v >= 0) & (v <= 1)).all()
    assert float(cost @ v) == pytest.approx(best_corner(cost, a), abs=1e-8)


def test_the_better_group_gives_up_half_of_its_hits() -> None:
    """Group 0 is always right; group 1 finds half of its positives and nothing else.

    Both must end at the same point (FPR, TPR); group 1 reaches the quadrangle (0, 0), (0, 1/2),
    (1, 1), (1, 1/2), whose largest TPR - FPR is at (0, 1/2): group 1 as it is, group 0 keeps
    every other positive.
    """
    x, y, s = rows(
        (0, 1, 0.9, 10), (0, 0, 0.1, 10), (1, 1, 0.9, 5), (1, 1, 0.1, 5), (1, 0, 0.1, 10)
    )
    for variant in VARIANTS:
        found = fit(x, y, s, variant)
        np.testing.assert_allclose(found.p2p, [0.5, 1], atol=1e-9)
        np.testing.assert_allclose(found.n2p, [0, 0], atol=1e-9)


def rates(chance: Floats, y: Ints, s: Ints) -> Floats:
    """Mean chance of a positive label, (group, class)."""
    return np.array([[chance[(s == g) & (y == c)].mean() for c in (0, 1)] for g in (0, 1)])


def test_rates_are_equal_in_expectation_and_in_many_draws() -> None:
    rng = np.random.default_rng(5)
    n = 400
    s, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = np.clip(0.5 + (0.15 + 0.2 * s) * (2 * y - 1) + 0.25 * rng.normal(size=n), 0.01, 0.99)
    x = x[:, None]
    found = fit(x, y, s)
    before = rates((x[:, 0] > 0.5).astype(np.float64), y, s)
    expected = rates(found.probabilities(x, s)[:, 1], y, s)
    assert abs(before[0] - before[1]).min() > 0.05
    np.testing.assert_allclose(expected[0], expected[1], atol=1e-9)
    drawn = np.mean([found.labels(x, s, seed) for seed in range(400)], axis=0)
    np.testing.assert_allclose(rates(drawn, y, s), expected, atol=0.02)


def test_draws_are_seeded_and_other_groups_pass_through() -> None:
    x, y, s = rows((0, 1, 0.9, 20), (0, 0, 0.6, 20), (1, 1, 0.4, 20), (1, 0, 0.1, 20))
    found = EqualizedOdds(Given(), PAIR, np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(found.labels(x, s, 3), found.labels(x, s, 3))
    assert (found.labels(x, s, 3) != found.labels(x, s, 4)).any()
    other = EqualizedOdds(Given(), PAIR, found.p2p, found.n2p, stream=1)
    assert (found.labels(x, s, 3) != other.labels(x, s, 3)).any()
    np.testing.assert_array_equal(found.labels(x, s + 2, 3), Given().labels(x, s))
    np.testing.assert_array_equal(found.losses(x, y, s), Given().losses(x, y, s))


def test_positive_means_the_protected_class() -> None:
    """Swapping the two classes everywhere swaps the labels and nothing else."""
    rng = np.random.default_rng(6)
    y, s, x = rng.integers(0, 2, 60), rng.integers(0, 2, 60), rng.uniform(0.01, 0.99, (60, 1))
    swapped = Dgeo(0, 1, 0)
    one = fit(x, y, s)
    two = fit_equalized_odds(Given(), swapped, hits_of(Given(), swapped, 1 - x, 1 - y, s))
    np.testing.assert_allclose(two.p2p, one.p2p, atol=1e-9)
    np.testing.assert_array_equal(two.labels(1 - x, s, 1), 1 - one.labels(x, s, 1))
    np.testing.assert_allclose(
        two.probabilities(1 - x, s), one.probabilities(x, s)[:, ::-1], atol=1e-9
    )


def test_as_a_method_every_client_fits_its_own_or_keeps_fedavg() -> None:
    federation = biased(7, [80, 90, 12])
    y = federation.y.copy()
    y[-12:] = 1
    federation = Federation(
        federation.x, y, federation.s, federation.offsets, federation.groups, federation.classes
    )
    trained = eo(*posed(federation))
    assert len(trained.predictors) == 3
    assert trained.notes[0].startswith("1 of 3 clients lack a class")
    base = fedavg(*posed(federation)).predictors[0]
    x, s = federation.x, federation.s
    np.testing.assert_array_equal(trained.predictors[2].labels(x, s, 0), base.labels(x, s, 0))
    for i, predictor in enumerate(trained.predictors[:2]):
        own = federation.only(i)
        after = rates(predictor.probabilities(own.x, own.s)[:, 1], own.y, own.s)
        np.testing.assert_allclose(after[0], after[1], atol=1e-8)


def test_many_classes_or_pairs_are_refused() -> None:
    three = Federation(np.zeros((3, 1)), np.arange(3), np.arange(3) % 2, np.array([0, 3]), 2, 3)
    with pytest.raises(FairSiloError, match="needs two classes and the label has 3"):
        eo(*posed(three, model=logistic_regression(1, 3)))
    with pytest.raises(FairSiloError, match="there are 2 pairs"):
        eo(*posed(biased(8, [30], groups=3), pairs=(PAIR, Dgeo(0, 2, 1))))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
@pytest.mark.parametrize("after", sorted(name for name, one in METHODS.items() if not one.repair))
@pytest.mark.parametrize("fit", sorted(FITS))
def test_a_repair_follows_any_training(fit: str, after: str, engine: str) -> None:
    """Every client's post-processing is fitted to its model on its own rows."""
    federation = biased(3, [120, 150])
    problem, silos = posed(federation, engine=engine)
    base = METHODS[after](problem, silos)
    found = repaired(problem, silos, base, fit, METHODS[after])
    assert len(found.predictors) == 2
    x, s = federation.x, federation.s
    own = base.predictors if after == "st" else base.predictors * 2
    for client, (predictor, part) in enumerate(
        zip(found.predictors, federation.parts(), strict=True)
    ):
        hits = hits_of(own[client], PAIR, part.x, part.y, part.s)
        alone = FITS[fit](own[client], PAIR, hits, client)
        np.testing.assert_allclose(predictor.probabilities(x, s), alone.probabilities(x, s))
        np.testing.assert_array_equal(predictor.labels(x, s, 7), alone.labels(x, s, 7))
    assert found.numbers_up == base.numbers_up


def test_a_client_without_a_class_keeps_the_labels_of_what_was_trained() -> None:
    federation = biased(4, [100, 3])
    federation = Federation.of(
        federation.x,
        np.where(np.arange(103) < 100, federation.y, 1),
        federation.s,
        np.repeat([0, 1], [100, 3]),
        groups=2,
        classes=2,
    )
    fedfair, (problem, engine) = METHODS["fedfair"], posed(federation, estimator="pooled")
    notes = repaired(problem, engine, fedfair(problem, engine), "eo", fedfair).notes
    assert any("they keep the labels of FedFair" in note for note in notes)
