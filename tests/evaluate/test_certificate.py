"""The certificate against a hand calculation, and its statement in words."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
import pytest

from fairsilo.evaluate import Tally
from fairsilo.evaluate.betting import wagers_on
from fairsilo.evaluate.certificate import ASSUMES, KINDS, Names, radii, refuse
from fairsilo.evaluate.certificate import certify as certify_any
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.intervals import FEWEST
from fairsilo.fairness import Dgeo

PAIRS = (Dgeo(0, 1, 1),)
certify = partial(certify_any, fewest=2)
"""With the approximate bounds for the few rows of a hand calculation."""
NAMES = Names(("Female", "Male", "Other"), ("no", "yes"))


def evidence(*silos: tuple[list[float], list[float]], pairs: tuple[Dgeo, ...] = PAIRS) -> Evidence:
    """Silos with the given losses of the two groups in class 1."""
    parts = []
    for a, b in silos:
        n, losses = len(a) + len(b), np.array([*a, *b], np.float64)
        s = np.repeat([0, 1], [len(a), len(b)])
        ones = np.ones(n, np.int64)
        tally = Tally.of(ones, s, ones, losses, groups=3, classes=2)
        parts.append(Evidence.of_silo(tally, pairs))
    return reduce(add, parts)


def test_by_hand() -> None:
    # Mean 2 and s^2 = 1 of three rows; mean 1 and s^2 = 2 of two rows: Var = 1/3 + 2/2 = 4/3.
    found = certify(evidence(([1, 2, 3], [0, 2])), PAIRS, NAMES, 8.0, by_silo=False)
    [pair] = found["pairs"]
    assert pair["pooled"]["gap"] == pytest.approx(1.0)
    assert pair["pooled"]["variance"] == pytest.approx(4 / 3)
    assert found["bounds"]["chebyshev"] == pytest.approx(1 + math.sqrt(20 * 4 / 3))
    assert found["bounds"]["cantelli"] == pytest.approx(1 + math.sqrt(19 * 4 / 3))
    assert found["bounds"]["normal"] == pytest.approx(1 + 1.6448536 * math.sqrt(4 / 3))
    assert (pair["rows_a"], pair["rows_b"], found["rows"]) == (3, 2, 5)
    assert found["met"] is True
    assert "mean" not in pair


def test_the_mean_estimator_has_the_papers_variance() -> None:
    # sigma_avg^2 / N with sigma_1^2 = 4/3 as above and sigma_2^2 = 2/2 + 2/2 = 2.
    both = evidence(([1, 2, 3], [0, 2]), ([4, 6], [1, 3]))
    [pair] = certify(both, PAIRS, NAMES, None, by_silo=True)["pairs"]
    assert pair["silos"] == 2
    assert pair["mean"]["gap"] == pytest.approx((1 + 3) / 2)
    assert pair["mean"]["variance"] == pytest.approx((4 / 3 + 2) / 4)
    # A silo with a single row in a cell has no variance.
    [pair] = certify(evidence(([1, 2], [0]), ([4, 6], [1, 3])), PAIRS, NAMES, None, by_silo=True)[
        "pairs"
    ]
    assert pair["mean"] is None
    assert pair["pooled"] is not None


def test_each_radius_gives_the_level_back() -> None:
    for level in (0.8, 0.95, 0.99):
        r = radii(0.3, level)
        assert 1 - 0.3 / r["chebyshev"] ** 2 == pytest.approx(level)
        assert 1 - 0.3 / (0.3 + r["cantelli"] ** 2) == pytest.approx(level)
        assert r["normal"] < r["cantelli"] < r["chebyshev"]


def test_words() -> None:
    some = evidence(([1, 2, 3], [0, 2]))
    met = certify(some, PAIRS, NAMES, 8.0, by_silo=False)
    assert met["statement"] == (
        "On 5 rows that the model did not see, its average loss on \u201cFemale\u201d is larger "
        "than on \u201cMale\u201d by 1.0000, among people whose true class is \u201cyes\u201d. "
        "With about 95% confidence, by an approximation, the gap in the whole population is below "
        "6.1640. So the limit of 8 is kept: certified."
    )
    assert met["assumes"] == list(ASSUMES)
    missed = certify(evidence(([0, 2], [1, 2, 3])), PAIRS, NAMES, 0.1, by_silo=False)
    assert missed["met"] is False
    assert "\u201cMale\u201d is larger than on \u201cFemale\u201d by 1.0000" in missed["statement"]
    assert "NOT certified; this does not say that it is broken" in missed["statement"]
    free = certify(some, PAIRS, NAMES, None, by_silo=False)
    assert free["met"] is None
    assert "No limit was set" in free["statement"]
    assert "no certificate for this model: it diverged" in refuse("it diverged", 0.1)["statement"]


def test_an_empty_or_single_row_group_is_never_certified() -> None:
    for silo in (([1.0, 2.0], []), ([1.0, 2.0], [1.0]), ([1.0, np.inf], [1.0, 2.0])):
        found = certify(evidence(silo), PAIRS, NAMES, 100.0, by_silo=True)
        assert found["met"] is None
        assert found["bounds"] == dict.fromkeys(("betting", *KINDS))
        assert "There is no certificate" in found["statement"]


def test_of_several_pairs_the_largest_bound_counts_and_all_must_be_known() -> None:
    pairs = (Dgeo(0, 1, 1), Dgeo(1, 0, 1))
    found = certify(evidence(([1, 2, 3], [0, 2]), pairs=pairs), pairs, NAMES, 8.0, by_silo=False)
    assert found["bounds"]["chebyshev"] == max(p["pooled"]["chebyshev"] for p in found["pairs"])
    assert "Of 2 pairs of groups" in found["statement"]
    pairs = (Dgeo(0, 1, 1), Dgeo(0, 2, 1))
    found = certify(evidence(([1, 2, 3], [0, 2]), pairs=pairs), pairs, NAMES, 8.0, by_silo=False)
    assert found["met"] is None


def test_every_pair_is_held_to_its_own_limit_and_only_those_that_have_one() -> None:
    pairs = (Dgeo(0, 1, 1), Dgeo(1, 0, 1))
    some = evidence(([1, 2, 3], [0, 2]), pairs=pairs)
    # Both bounds are 6.164: one pair keeps its limit, the other does not.
    found = certify(some, pairs, NAMES, [8.0, 2.0], by_silo=False)
    assert found["met"] is False
    assert "whose bound is farthest above its limit" in found["statement"]
    assert "not below the limit of 2," in found["statement"]
    kept = certify(some, pairs, NAMES, [8.0, None], by_silo=False)
    assert kept["met"] is True
    assert [line["limit"] for line in kept["pairs"]] == [8.0]
    none = certify(some, pairs, NAMES, [None, None], by_silo=False)
    assert (none["met"], none["limit"], len(none["pairs"])) == (None, None, 2)


def test_an_estimated_variance_says_nothing_of_few_rows() -> None:
    few, enough = (
        certify_any(evidence(([1.0, 2.0] * n, [1.5, 2.5] * n)), PAIRS, NAMES, None, by_silo=True)
        for n in (FEWEST // 2 - 1, FEWEST // 2)
    )
    assert few["bounds"] == dict.fromkeys(("betting", *KINDS))
    assert few["pairs"][0]["mean"] is None
    assert few["pairs"][0]["gap"] == pytest.approx(-0.5)
    assert None not in [enough["bounds"][kind] for kind in KINDS]


def test_with_the_sums_of_wagers_the_bound_by_betting_certifies() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.exponential(0.3, 4000), rng.exponential(0.32, 900)
    seen = evidence((a.tolist(), b.tolist()))
    y, s = np.ones(4900, np.int64), np.repeat([0, 1], [4000, 900])
    known = replace(seen, wagers=wagers_on(np.concatenate([a, b]), y, s, PAIRS))
    found = certify_any(known, PAIRS, NAMES, 0.15, by_silo=False)
    assert (found["by"], found["clip"], found["met"]) == ("betting", 5.0, True)
    assert abs(a.mean() - b.mean()) < found["bounds"]["betting"] <= 0.15
    assert "where a loss above 5 counts as 5. So the limit of 0.15 is kept" in found["statement"]
    strict = certify_any(known, PAIRS, NAMES, 0.05, by_silo=False)
    assert strict["met"] is False
    assert strict["needed"] > 900
    assert "more held-out rows of \u201cMale\u201d with \u201cyes\u201d" in strict["statement"]
    # So many rows do settle it.
    times = 1 + strict["needed"] / 900
    more = [rng.exponential(mean, int(n * times)) for mean, n in ((0.3, 4000), (0.32, 900))]
    again = evidence(*[(more[0].tolist(), more[1].tolist())])
    of = np.repeat([0, 1], [len(one) for one in more])
    sums = wagers_on(np.concatenate(more), np.ones(len(of), np.int64), of, PAIRS)
    bound = certify_any(replace(again, wagers=sums), PAIRS, NAMES, 0.05, by_silo=False)["bounds"]
    assert bound["betting"] == pytest.approx(0.05, abs=0.02)
