"""Thresholds against every choice of cuts there is, and the same in every engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.arrays import Ints
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.metrics import rate_gap
from fairsilo.evaluate.scores import CELLS, counted, threshold_of
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness import NOTIONS, Constraint, comparisons
from fairsilo.method import METHODS
from fairsilo.predictor.thresholds import MOST, OWN, Thresholds, _fewer, _Program, choose_cuts
from fairsilo.run import Options, execute, load, save
from fairsilo.run.predict import score_table
from tests.method.tasks import Given, biased, posed

RATES = ("equal-opportunity", "equalized-odds", "demographic-parity", "accuracy-parity")


def constraints_of(notion: str, groups: int, against: str = "pairs") -> tuple[Constraint, ...]:
    sides = comparisons(list(range(groups)), against)  # type: ignore[arg-type]
    return NOTIONS[notion].constraints(sides, [1], 2)


def by_trying(
    p: np.ndarray, y: Ints, s: Ints, constraints: Sequence[Constraint], groups: int
) -> list[tuple[float, int]]:
    """Gap and rows predicted right of every choice of cuts, row by row."""
    places = [threshold_of(cell) for cell in range(CELLS + 1)]
    # A cut matters only in what it makes of the group's own rows.
    ways = []
    for g in range(groups):
        made = {tuple(p[s == g] >= place): place for place in places}
        ways.append(list(made.values()))
    found = []
    for cuts in itertools.product(*ways):
        labels = (p >= np.array(cuts)[s]).astype(np.int64)
        tally = Tally.of(y, s, labels, np.zeros(len(y)), groups=groups, classes=2)
        gaps = [rate_gap(tally, one) or 0.0 for one in constraints]
        found.append((max(map(abs, gaps)), int((labels == y).sum())))
    return found


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**31), st.sampled_from(RATES), st.sampled_from([0.0, 0.11, 0.3]),
    st.sampled_from([(2, "pairs"), (3, "pairs"), (3, "rest")]),
)  # fmt: skip
def test_no_other_cuts_within_the_target_are_better(
    seed: int, notion: str, target: float, compared: tuple[int, str]
) -> None:
    groups, against = compared
    rng = np.random.default_rng(seed)
    n = 6 * groups
    y, s = rng.integers(0, 2, n), rng.integers(0, groups, n)
    for g in range(groups):
        y[2 * g : 2 * g + 2], s[2 * g : 2 * g + 2] = (0, 1), g
    p = np.clip(rng.random(n) * 0.6 + 0.3 * y, 0.01, 0.99)
    constraints = constraints_of(notion, groups, against)
    scores = counted(np.stack([1 - p, p], axis=1), y, s, groups)[:, 0]
    found = choose_cuts(scores, constraints, target)
    labels = (p >= found.cuts[s]).astype(np.int64)
    tally = Tally.of(y, s, labels, np.zeros(n), groups=groups, classes=2)
    gap = max(abs(rate_gap(tally, one) or 0.0) for one in constraints)
    assert found.gap == pytest.approx(gap, abs=1e-12)
    assert found.accuracy == pytest.approx(float(np.mean(labels == y)), abs=1e-12)
    assert found.by_lot >= found.accuracy
    tried = by_trying(p, y, s, constraints, groups)
    within = [right for one, right in tried if one <= target + 1e-12]
    if within:
        assert gap <= target + 1e-12
        assert int((labels == y).sum()) == max(within)
    else:
        assert gap == pytest.approx(min(one for one, _ in tried), abs=1e-9)


def test_a_target_that_does_not_bind_leaves_the_decision_at_one_half() -> None:
    scores = np.zeros((3, 2, CELLS), np.int64)
    scores[:, 1, 160], scores[:, 0, 90] = 10, 10
    found = choose_cuts(scores, constraints_of("equal-opportunity", 2), 0.05)
    assert found.cuts.tolist() == [0.5, 0.5, 0.5]  # the third is compared with nobody
    assert found.accuracy == found.by_lot == 1.0


def test_the_lot_that_is_not_drawn_is_told() -> None:
    """Half of one group's class cannot be told apart: only a lot would give a rate of one half."""
    scores = np.zeros((2, 2, CELLS), np.int64)
    scores[0, 1, [200, 60]] = 50, 50
    scores[0, 0, 60] = 200
    scores[1, 1, 200], scores[1, 0, 60] = 100, 200
    found = choose_cuts(scores, constraints_of("equal-opportunity", 2), 0.0)
    assert found.gap == 0
    assert found.by_lot > found.accuracy + 0.01


def test_a_search_that_is_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairsilo.predictor.thresholds.NODES", 0)
    # Many scores and several limits: a small table is solved without a search.
    scores = np.random.default_rng(0).integers(0, 3, (3, 2, CELLS))
    found = choose_cuts(scores, constraints_of("equal-opportunity", 3), 0.01)
    assert not found.proved
    assert found.gap == 0
    share = scores.sum(axis=(0, 2)) / scores.sum()
    assert found.accuracy == pytest.approx(max(share))


def test_the_program_stays_small_with_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size bounds the time: every cut of six groups took five times as long as these."""
    up = np.arange(CELLS) / CELLS
    scores = np.random.default_rng(0).integers(0, 50, (6, 2, CELLS))
    scores = (scores * np.stack([1 - up, up])).astype(np.int64)
    constraints = constraints_of("equal-opportunity", 6)
    program = _Program(scores.astype(float), constraints)
    assert len(program.owner) <= MOST
    assert all(OWN in cuts and cuts[0] <= 20 and cuts[-1] >= 250 for cuts in program.cuts)
    found = choose_cuts(scores, constraints, 0.05)
    assert found.gap <= 0.05
    assert not found.proved
    # No cuts are better than a lot between all of them, also of those that were not tried.
    monkeypatch.setattr("fairsilo.predictor.thresholds.MOST", 6 * (CELLS + 1))
    every = _Program(scores.astype(float), constraints)
    bound = every.solve(0.05, whole=False)
    assert len(every.owner) > MOST
    assert bound is not None
    assert found.accuracy > every.accuracy(bound) - 0.002


@pytest.mark.parametrize("groups", [6, 300, 800])
def test_of_many_groups_each_keeps_its_first_and_last_cut(groups: int) -> None:
    every = list(range(10, CELLS))
    for kept in _fewer([every] * groups):
        assert {every[0], OWN, every[-1]} <= set(kept)


@pytest.mark.parametrize("notion", ["equal-opportunity", "demographic-parity"])
def test_engines_choose_alike_and_keep_to_the_target(notion: str) -> None:
    federation = biased(5, [150, 250, 200], groups=3)
    pairs = constraints_of(notion, 3)
    cuts = []
    for engine in ("pooled", "clientwise"):
        problem, silos = posed(federation, engine=engine, pairs=pairs, target=0.04)
        trained = METHODS["thresholds"](problem, silos)
        (model,) = trained.predictors
        assert isinstance(model, Thresholds)
        assert trained.notes == () or "by lot" in trained.notes[0]
        cuts.append(model.cuts)
        labels = model.labels(federation.x, federation.s)
        tally = Tally.of(
            federation.y, federation.s, labels, np.zeros(len(labels)), groups=3, classes=2
        )
        assert max(abs(rate_gap(tally, one) or 0.0) for one in pairs) <= 0.04
    np.testing.assert_array_equal(cuts[0], cuts[1])
    base = METHODS["fedavg"](*posed(federation)).outcome.theta
    np.testing.assert_allclose(trained.outcome.theta, base, atol=1e-7)


def test_a_group_decides_from_its_cut_on() -> None:
    p = np.array([0.2, 0.3, 0.3, 0.7])
    model = Thresholds(Given(), np.array([0.3, 0.5]))
    assert model.labels(p[:, None], np.array([0, 0, 1, 1])).tolist() == [0, 1, 0, 1]


def told(folder: Path, **more: Any) -> Options:
    make_table(900, silos=3, bias=1.0, seed=2).to_csv(folder / "t.csv", index=False)
    return Options(
        data=str(folder / "t.csv"), label="label", protected_class="1", group="group",
        client="client", method="thresholds", **more,
    )  # fmt: skip


def test_a_run_has_its_thresholds_and_predicts_by_them(tmp_path: Path) -> None:
    run = execute(told(tmp_path, target_deo=0.03, after="fedfair", epsilon=0.2), baseline=False)
    assert run.metrics["target_met"]
    assert run.metrics["train"]["rate_gap"] <= 0.03
    assert run.metrics["certificate"]["rates"]["limit"] == 0.03
    assert (
        "thresholds changed the answers of FedFair, trained with epsilon 0.2"
        in run.metrics["notes"]
    )
    save(run, tmp_path / "run")
    (model,) = load(tmp_path / "run").predictors
    assert isinstance(model, Thresholds)
    assert dict(zip(("g0", "g1"), model.cuts.tolist(), strict=True)) == run.metrics["cuts"]
    scores, _ = score_table(tmp_path / "run", tmp_path / "t.csv")
    group = make_table(900, silos=3, bias=1.0, seed=2)["group"].map(run.metrics["cuts"])
    assert ((scores["probability 1"] >= group) == (scores["predicted"] == "1")).all()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"after": "st"}, "is for one model and st has one for every client"),
        ({"target_confidence": 0.9}, "`target_confidence` is for training to a target"),
        ({"target_by": "search"}, "`target_by` is for training to a target"),
        ({"decide_at": "0.3"}, "decides by group"),
        ({"epsilons": (("g0:g1", 0.1),)}, "`epsilon` for single pairs is for `method` fedfair and"),
        ({"notion": "bounded-loss"}, "bounded-loss has none"),
        ({"dp_epsilon": 4.0}, "thresholds"),
    ],
)
def test_what_does_not_go_with_thresholds(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(FairSiloError, match=words):
        told(tmp_path, **more)
