"""Bounds of a mean by betting: by their definition, and as often as they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.evaluate.betting import BINS, CLIP, MEANS, WAGERS, mean_between, wagers_of, wagers_on
from fairsilo.fairness import Dgeo


def sums_of(losses: Floats) -> Floats:
    sums: Floats = wagers_of(losses, np.zeros(len(losses), np.int64), 1)[0]
    return sums


def test_the_sums_are_logarithms_of_capitals() -> None:
    """Against one product for a wager and a mean; losses are rounded by a step at most."""
    losses = np.array([0.0, 0.4, 5.0, 1.2, 90.0, np.inf, 0.02])
    x, found = np.minimum(losses / CLIP, 1), sums_of(losses)
    w, m = 3, 9
    for side, sign in enumerate((1, -1)):
        capital = np.prod(1 + WAGERS[w] * sign * (MEANS[m] - x))
        step = len(x) * WAGERS[w] / BINS / (1 - WAGERS[w])
        assert found[side, w, m] == pytest.approx(math.log(capital), abs=step)
        assert found[side, w, m] <= math.log(capital) + 1e-12


def test_sums_of_silos_add_up_and_cells_stay_apart() -> None:
    rng = np.random.default_rng(0)
    losses, y, s = rng.exponential(1, 60), rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    pairs = (Dgeo(0, 1, 1), Dgeo(0, 2, 1))
    whole = wagers_on(losses, y, s, pairs)
    parts = [wagers_on(losses[k::3], y[k::3], s[k::3], pairs) for k in range(3)]
    np.testing.assert_allclose(whole, sum(parts), atol=1e-9)
    assert whole.shape == (3, 2, len(WAGERS), len(MEANS))
    np.testing.assert_allclose(whole[1], sums_of(losses[(s == 1) & (y == 1)]), atol=1e-9)


def test_more_rows_make_it_narrower_and_none_say_nothing() -> None:
    rng = np.random.default_rng(1)
    spans = [mean_between(sums_of(rng.exponential(0.8, n)), n) for n in (0, 10, 100, 1000, 100_000)]
    widths = [span.high - span.low for span in spans]
    assert widths == sorted(widths, reverse=True)
    assert (spans[0].low, spans[0].high) == (0, CLIP)
    assert widths[-1] < 0.04
    # Not much wider than the normal interval, which is none of finitely many rows.
    assert widths[3] < 2.2 * 2 * 1.96 * 0.8 / math.sqrt(1000)


def rare(rng: np.random.Generator, rows: int) -> Floats:
    """One row in a hundred has a large loss: with few rows none is seen, and no variance."""
    return np.where(rng.random(rows) < 0.01, 4.0, 0.05 + 0.01 * rng.random(rows))


def heavy(rng: np.random.Generator, rows: int) -> Floats:
    """Lognormal."""
    return np.exp(rng.normal(-1, 1.5, rows))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [rare, heavy])
@pytest.mark.parametrize("rows", [2, 10, 30, 100, 1000])
def test_the_mean_is_between_the_bounds_as_often_as_promised(draw: object, rows: int) -> None:
    """At level 0.8, where 120 draws can tell: each end fails in a tenth of them at most."""
    assert callable(draw)
    rng = np.random.default_rng(rows)
    truth = float(np.minimum(draw(rng, 400_000), CLIP).mean())
    spans = [mean_between(sums_of(draw(rng, rows)), rows, 0.8) for _ in range(120)]
    below = np.mean([truth < span.low for span in spans])
    above = np.mean([truth > span.high for span in spans])
    assert max(below, above) <= 0.1 + 0.03
