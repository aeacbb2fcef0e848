"""The certificate of decisions: exact, of every notion with rates, with the rows it takes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from fairsilo.evaluate import Tally
from fairsilo.evaluate.exact import clopper_pearson
from fairsilo.evaluate.rates import certify_rates, gap_bound, statement
from fairsilo.fairness import Constraint, Dgeo, Gap

GROUPS, CLASSES = ("Female", "Male", "Other"), ("no", "yes")


def tally(*hits: tuple[int, int]) -> Tally:
    """Of every group, how many of how many rows of class 1 are predicted right."""
    counts = np.zeros((len(hits), 2, 2), np.int64)
    for g, (right, rows) in enumerate(hits):
        counts[g, 1] = rows - right, right
        counts[g, 0] = 10, 5
    return Tally(counts, np.zeros((len(hits), 2)), np.zeros((len(hits), 2)))


def certified(seen: Tally, *pairs: Constraint, limit: float | None = None) -> dict[str, object]:
    return certify_rates(seen, pairs, GROUPS[: len(seen.counts)], CLASSES, limit)


def test_by_the_ends_of_both_intervals() -> None:
    found = certified(tally((30, 50), (150, 200)), Dgeo(0, 1, 1))
    a, b = clopper_pearson(30, 50, 0.95), clopper_pearson(150, 200, 0.95)
    assert found["bound"] == pytest.approx(b.high - a.low)
    assert found["bound"] == gap_bound(a, b)
    assert found["met"] is None


@pytest.mark.parametrize("rows", [2, 10, 30, 100, 1000])
def test_it_holds_as_often_as_promised(rows: int) -> None:
    """Over all outcomes of both groups, exactly."""
    level = 0.8
    ends = [clopper_pearson(h, rows, level) for h in range(rows + 1)]
    low, high = np.array([(one.low, one.high) for one in ends]).T
    above = np.subtract.outer(high, low)
    bound = np.maximum(above, above.T)
    assert bound[1, 0] == gap_bound(ends[1], ends[0])
    for p, q in ((0.5, 0.5), (0.02, 0.3), (0.9, 0.97), (0.0, 1.0)):
        holds = bound >= abs(p - q) - 1e-12
        chance = binom.pmf(range(rows + 1), rows, p) @ holds @ binom.pmf(range(rows + 1), rows, q)
        assert chance >= level - 1e-9


def test_several_comparisons_and_a_claim() -> None:
    seen = tally((30, 50), (150, 200), (9, 10))
    everyone = Gap((0,), (1,), (0, 1), claim=1)
    found = certify_rates(
        seen, [Dgeo(0, 1, 1), Dgeo(0, 2, 1), everyone, Gap((0,), (), (0, 1))], GROUPS, CLASSES, 0.5
    )
    lines = found["lines"]
    assert [line["name"] for line in lines] == [
        "Female - Male in yes", "Female - Other in yes", "Female - Male predicted yes",
    ]  # fmt: skip
    assert found["bound"] == max(line["bound"] for line in lines)
    assert all(line["together"] > line["bound"] for line in lines)
    # With a claim the rate is that of the claimed class among all rows.
    assert lines[2]["rate_a"] == pytest.approx((30 + 5) / (50 + 15))


def test_the_rows_that_are_said_to_settle_it_do() -> None:
    found = certified(tally((100, 187), (600, 1103)), Dgeo(0, 1, 1), limit=0.05)
    assert found["met"] is False
    needed = found["needed"]
    assert isinstance(needed, int)
    times = 1 + needed / 187
    more = [(round(h * times), round(n * times)) for h, n in ((100, 187), (600, 1103))]
    assert certified(tally(*more), Dgeo(0, 1, 1), limit=0.05)["bound"] == pytest.approx(
        0.05, abs=2e-3
    )
    words = statement(found, 1290, 0.95)
    assert "more held-out rows of \u201cFemale\u201d with \u201cyes\u201d" in words
    assert "NOT certified" in words
    beyond = certified(tally((100, 187), (900, 1103)), Dgeo(0, 1, 1), limit=0.05)
    assert beyond["needed"] is None
    kept = certified(tally((90_000, 150_000), (90_100, 150_000)), Dgeo(0, 1, 1), limit=0.05)
    assert kept["met"] is True
    assert "certified." in statement(kept, 300_000, 0.95)


def test_a_mixture_of_cells_is_bounded_only_where_no_silo_left_one_out() -> None:
    """Of classes, and of groups; a cell of another group or class is no matter."""
    seen = tally((30, 50), (150, 200), (9, 10))
    elsewhere, here = np.zeros((2, 3, 2), np.int64)
    elsewhere[2, 0], here[1, 1] = 3, 3
    mixtures = [Gap((0,), (1,), (0, 1)), Gap((0,), (1, 2), (1,)), Gap((0,), (1,), (0, 1), claim=1)]
    for one in mixtures:
        free, kept, cut = (
            certify_rates(seen, [one], GROUPS, CLASSES, 1.0, hidden=hidden)
            for hidden in (None, elsewhere, here)
        )
        assert free == kept
        assert (free["met"], cut["met"]) == (True, None)
        assert (cut["bound"], cut["lines"]) == (None, [])
        assert str(cut["why"]).startswith("3 cells")
    within = certify_rates(seen, [Dgeo(0, 1, 1)], GROUPS, CLASSES, 1.0, hidden=here)
    assert within == certify_rates(seen, [Dgeo(0, 1, 1)], GROUPS, CLASSES, 1.0)


def test_bounds_of_added_audits_hold_at_all_times_together() -> None:
    """Shares of a prediction, looked at often: the bound of one time fails too often."""
    rng, true, level = np.random.default_rng(0), 0.2, 0.5
    shares = Gap((0,), (1,), (0, 1), claim=1)
    looks = np.unique(np.geomspace(5, 3000, 40).astype(int))
    streams, missed = 60, {0: 0, 1: 0}
    for _ in range(streams):
        said = np.cumsum(rng.random((2, 3000)) < [[0.6], [0.6 - true]], axis=1)
        for audits in missed:
            for n in looks:
                counts = np.zeros((2, 2, 2), np.int64)
                counts[:, 0, 1] = said[:, n - 1]
                counts[:, 1, 0] = n - said[:, n - 1]
                seen = Tally(counts, np.zeros((2, 2)), np.zeros((2, 2)))
                bound = certify_rates(
                    seen, [shares], GROUPS[:2], CLASSES, None, level, None, audits
                )
                if bound["bound"] < true:
                    missed[audits] += 1
                    break
    assert missed[1] <= (1 - level) * streams < missed[0]


def test_without_rows_there_is_no_certificate() -> None:
    found = certified(tally((0, 0), (5, 9)), Dgeo(0, 1, 1), limit=0.05)
    assert found["met"] is False
    assert found["bound"] == pytest.approx(1, abs=0.3)
    assert statement(found, 9, 0.95).startswith("There is no certificate")
