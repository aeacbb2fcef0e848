"""The check of the theorems: it finds a wrong estimator, unequal clients and a trained theta."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairsilo.experiment.theorems import Population, check, local_estimates, rows_of
from fairsilo.experiment.theorems_trained import check_trained
from fairsilo.experiment.theorems_words import bounds_found, trained_found

RNG = np.random.default_rng(0)
PEOPLE = Population((RNG.exponential(1.0, 500), RNG.exponential(0.5, 900)), (0.1, 0.3))


def test_an_estimate_is_the_difference_of_means() -> None:
    """Unbiased, with the variance of two means of so many rows."""
    found = local_estimates(np.random.default_rng(1), PEOPLE, np.full(20_000, 2_000))
    predicted = PEOPLE.losses[0].var() / 200 + PEOPLE.losses[1].var() / 600
    assert found.mean() == pytest.approx(PEOPLE.truth, abs=4 * np.sqrt(predicted / 20_000))
    assert found.var() == pytest.approx(predicted, rel=0.05)


def test_clients_of_unequal_size() -> None:
    assert rows_of("unequal", 5).tolist() == [1600, 100, 100, 100, 1600]
    many = local_estimates(np.random.default_rng(0), PEOPLE, np.tile([1600, 100], 4_000))
    few = many.reshape(-1, 2).var(axis=0)
    assert few[1] > 10 * few[0]


@pytest.mark.slow
def test_the_bounds_hold_where_they_could_fail() -> None:
    table = check(draws=400)
    ratio = table["variance"] / table["sigma_avg2_over_n"]
    assert ratio.between(0.75, 1.3).all()  # 400 draws: a variance is known to 7 percent or so
    for who in ("fedfair", "lco"):
        for what in ("held", "within"):
            assert (table[f"{what}_{who}"] >= table["promised"] - 0.05).all()
    # An estimator that always answers 0 is found out, and the bounds do fail now and then.
    telling = table[table["held_zero"] < 1]
    assert set(telling["scenario"]) == {"free", "unequal"}
    assert (telling["held_fedfair"] < 1).any()
    said = " ".join(bounds_found(table))
    assert "for N = 2, 5, 10 sigma_avg^2/N is above sigma_min^2" in said


@pytest.mark.slow
def test_a_trained_estimate_is_not_unbiased() -> None:
    table = check_trained(draws=3)
    mine = table[table["method"] == "fedfair"]
    # The limit holds on the rows that it was trained on, to the last digit.
    assert mine["estimate"].abs().max() <= 0.05 + 1e-5
    assert mine["truth"].abs().max() > 0.05
    assert "LCO: the estimate has a median size" in trained_found(table)


def test_a_bound_that_holds_for_an_estimate_of_zero_is_told_apart() -> None:
    """Radii that promise 75 % are sqrt(0.05 / 0.25) of those that promise 95 %."""
    gaps = {"estimate": [0.05, 0.05], "truth": [0.25, -0.02], "radius": [0.5, 0.5]}
    about = {"clients": 10, "rows_per_client": 400, "epsilon": 0.05, "draw": [0, 1]}
    table = pd.DataFrame({"method": "fedfair", **about, **gaps})
    said = trained_found(pd.concat([table, table.assign(method="lco", estimate=0.0)]))
    assert "the bound for 95% held in 100% (with an estimate of 0: 100%) and " in said
    assert "the bound for 75% held in 100% (with an estimate of 0: 50%)" in said
    assert said.count("(with an estimate of 0: 50%)") == 2
