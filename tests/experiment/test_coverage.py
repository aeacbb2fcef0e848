"""The intervals have their nominal coverage, over 1,000 federations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from fairsilo.experiment.coverage import _mean_loss, coverage, simulate

TIGHT = ("rate, Wilson", "rate, bootstrap", "rate gap, Newcombe", "rate gap, bootstrap")
SURE = ("loss gap, Chebyshev", "loss gap, mean, Chebyshev")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "silos"), [((30, 150), 6), ((30, 30), 1)], ids=["federations", "thirty rows a cell"]
)
def test_intervals_hold_the_truth(sizes: tuple[int, int], silos: int) -> None:
    found = coverage(1_000, least=sizes[0], most=sizes[1], silos=silos)
    for name in TIGHT:
        assert 0.93 <= found["held"][name] <= 0.97, name
    for name in SURE:
        assert found["held"][name] >= 0.95, name
    # Approximations for skewed losses: the coverage may be slightly below the nominal one.
    for name in ("loss gap, normal", "loss gap, mean, normal", "rate gap, mean, normal"):
        assert 0.92 <= found["held"][name] <= 0.97, name
    for name in ("chebyshev", "cantelli", "normal"):
        assert found["held"][f"certificate, {name}"] >= 0.94, name
    widths = [found["width"][f"certificate, {name}"] for name in ("chebyshev", "cantelli")]
    assert widths[1] < widths[0]


@pytest.mark.slow
def test_silos_of_different_populations_make_no_interval_too_narrow() -> None:
    found = coverage(300, shift=0.7, seed=1)
    assert (found["held"][[*TIGHT, *SURE]] >= 0.93).all()


def test_the_truth_is_the_integral() -> None:
    mean = _mean_loss(np.array([0.4]), np.array([1.3]))[0]
    want = integrate.quad(
        lambda z: np.logaddexp(0.0, -z) * stats.norm.pdf(z, 0.4, 1.3), -12.0, 12.0
    )[0]
    assert mean == pytest.approx(want, abs=1e-8)
    many = simulate(np.random.default_rng(0), 200_000, 200_000, 1, 0.0)
    tally = many.evidence.tally
    means = tally.losses[:, 1] / tally.cells[:, 1]
    assert means[0] - means[1] == pytest.approx(many.truth["loss pooled"], abs=0.01)
    np.testing.assert_allclose(tally.right[:, 1] / tally.cells[:, 1], many.rates, atol=0.01)
