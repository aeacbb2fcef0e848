"""A target that is promised for the population is kept there, and refused where rows are few."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.data import make_table
from fairsilo.engine import Clientwise
from fairsilo.errors import FairSiloError
from fairsilo.method.promise import promise
from fairsilo.method.target import gap
from fairsilo.partition.federation import Federation
from fairsilo.question import Evaluate, Problem
from fairsilo.run import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.train import settle_here
from fairsilo.solver import Outcome
from fairsilo.solver.penalty import Penalty
from tests.method.tasks import biased, engine_of, posed, problem_of


def apart(rows: Federation, theta: np.ndarray) -> float:
    """The gap of true-positive rates on these rows."""
    return gap(problem_of(rows, estimator="pooled"), engine_of(rows), theta)


def given(seed: int, sizes: list[int], engine: str = "pooled") -> tuple[Problem, Clientwise]:
    return posed(biased(seed, sizes), engine=engine, estimator="pooled", rounds=60)


@pytest.mark.slow
def test_a_promise_is_kept_in_the_population() -> None:
    """Over ten draws; the promise allows one gap in ten above the target."""
    population = biased(99, [60_000])
    broken, given_out = 0, 0
    for seed in range(10):
        try:
            trained = promise(*given(seed, [2500, 2500]), 0.1, 0.9)
        except FairSiloError:
            continue
        given_out += 1
        broken += apart(population, trained.outcome.theta) > 0.1
    assert broken <= 2
    assert given_out >= 6


def test_silo_by_silo_is_the_same() -> None:
    one, other = (promise(*given(3, [900, 700, 800], name), 0.2, 0.7) for name in ENGINES)
    np.testing.assert_allclose(one.outcome.theta, other.outcome.theta, atol=1e-7)
    assert one.notes == other.notes
    assert one.rounds_before > one.outcome.rounds


def test_the_rounds_of_all_models_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a model that kept to a limit without it are not those of the next one, too."""
    problem, engine = given(3, [900, 700, 800])
    solve, spent = engine.solve, list[int]()

    def counted(*args: Any, **more: Any) -> Outcome:
        outcome = solve(*args, **more)
        spent.append(outcome.rounds)
        return outcome

    monkeypatch.setattr(engine, "solve", counted)
    for target in (0.2, 0.9):
        spent.clear()
        trained = promise(problem, engine, target, 0.7)
        assert trained.outcome.rounds + trained.rounds_before == sum(spent)


ENGINES = ("pooled", "clientwise")


def test_the_models_never_see_the_rows_set_aside() -> None:
    """Other rows set aside, the same models: only the choice among them can differ."""
    federation = biased(3, [900, 700])
    problem, engine = posed(federation, estimator="pooled", rounds=60, engine="clientwise")
    before = promise(problem, engine, 0.15, 0.6)
    for silo in engine.silos:
        aside = ~silo._kept(problem)
        silo.train.x[aside] = 0.0
        silo.cache.clear()
    after = promise(problem, engine, 0.15, 0.6)
    if before.notes[-1].split(" was taken")[0] == after.notes[-1].split(" was taken")[0]:
        np.testing.assert_array_equal(before.outcome.theta, after.outcome.theta)
    else:
        assert not np.array_equal(before.outcome.theta, after.outcome.theta)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_penalty_and_pairs_are_not_chosen_by_the_rows_set_aside(
    tmp_path: Path, engine: str
) -> None:
    """Other labels there, the same choice; without a promise they have a say."""
    make_table(600, silos=2, numbers=3, seed=5).to_csv(tmp_path / "table.csv", index=False)
    common = Options(
        str(tmp_path / "table.csv"), label="label", protected_class="1", group="group",
        client="client", model="additive", pairs=2, target_deo=0.3, engine=engine,
    )  # fmt: skip

    def chosen(options: Options, flipped: bool) -> Any:
        prepared = prepare(options)
        here, problem = prepared.engine(options), plan(options, prepared)
        for silo in here.silos:
            aside = ~silo._kept(problem)
            silo.train.y[aside] = abs(silo.train.y[aside] - flipped)
        settled, crossed, _ = settle_here(options, prepared, problem, here)
        assert isinstance(settled.problem.penalty, Penalty)
        assert not settled.problem.rest
        return settled.problem.penalty.strengths, crossed.encoder.binned

    promised = replace(common, target_confidence=0.6)
    assert chosen(promised, False) == chosen(promised, True)
    assert chosen(common, False) != chosen(common, True)


def test_the_parts_of_the_training_rows_are_all_of_them() -> None:
    problem, engine = posed(biased(3, [90, 71]), estimator="pooled", rest=True)
    theta = np.linspace(-1, 1, problem.model.size)
    counts = {
        part: engine.ask(problem, Evaluate(theta, part=part))[0].tally.counts
        for part in ("all", "rest", "aside")
    }
    np.testing.assert_array_equal(counts["rest"] + counts["aside"], counts["all"])
    assert counts["aside"].sum() == 18 + 14


def test_too_few_rows_are_refused_with_the_number_that_it_takes() -> None:
    with pytest.raises(FairSiloError, match=r"needs about \d,\d{3} of each") as refused:
        promise(*given(3, [300, 300]), 0.02, 0.9)
    assert "`target_confidence` 0.9 cannot be promised" in str(refused.value)
