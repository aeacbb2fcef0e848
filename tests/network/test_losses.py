"""Silos lost in LCO, AF and a search for a target, and runs resumed: the model of those left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.data import build_labels
from fairsilo.engine import Clientwise, silos_of
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record, unpack_parcels
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem, Question
from fairsilo.run import Run
from fairsilo.run.problem import plan
from fairsilo.solver import Status
from tests.network.silos import (
    Change,
    Town,
    TownTransport,
    largest_gap,
    make_town,
    simulate,
    train,
    train_with,
)

LAST = "silo3"
"""The numbers of the other silos, from which their draws follow, are those of the simulation."""
SEARCH: dict[str, Any] = {"target_deo": 0.02, "target_by": "search", "epsilon": 0.05}


class KilledError(BaseException):
    """Stands for kill -9."""


def gone_from(kind: str, time: int) -> Change:
    """The last silo is gone when a kind of question is asked for the nth time."""
    asked, gone = 0, False

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        nonlocal asked, gone
        if name == LAST and not gone:
            asked += record.get("kind") == kind
            gone = asked == time
        return Fault("is gone") if name == LAST and gone else None

    return change


def without_last(town: Town) -> int:
    return len(town.table.query(f"client != '{LAST}' and part == 'train'"))


class Fewer(Clientwise):
    """Silos in this process, the last of which leaves before the nth question of a kind."""

    def __init__(self, town: Town, run: Run, kind: str, time: int) -> None:
        rows = town.table.query("part == 'train'")
        y, s = build_labels(rows, town.agreed.table)
        client = np.array([town.agreed.names.index(name) for name in rows["client"]])
        x = run.prepared.encoder.transform(rows)
        super().__init__(silos_of(Federation.of(x, y, s, client, groups=2, classes=2)))
        self.kind, self.left = kind, time

    def ask(self, problem: Problem, question: Question) -> Any:
        if question.kind == self.kind:
            self.left -= 1
            if self.left == 0:
                self.silos, self._totals = self.silos[:-1], {}
        return super().ask(problem, question)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "time"), [("spread", 1), ("attack", 1), ("attack", 5)])
def test_af_goes_on_with_the_silos_that_are_left(tmp_path: Path, kind: str, time: int) -> None:
    """As silos in one process do, of which one leaves before the same question."""
    town = make_town(
        tmp_path / "town", method="af", rounds=60, epsilon=0.5, secure_aggregation=False
    )
    run, _ = train(town, TownTransport(town, gone_from(kind, time)), tmp_path / "journal")
    problem = plan(run.options, run.prepared)
    expected = METHODS["af"](problem, Fewer(town, run, kind, time)).outcome
    assert run.client_names == town.agreed.names[:-1]
    assert run.trained.outcome.status is expected.status is Status.CONVERGED
    np.testing.assert_allclose(run.trained.outcome.theta, expected.theta, atol=1e-6)
    assert run.metrics["train"]["rows"] == without_last(town)
    if kind == "spread":
        return
    undisturbed, _ = train(town, TownTransport(town), tmp_path / "other")
    assert np.abs(undisturbed.trained.outcome.theta - expected.theta).max() > 1e-3


def test_af_without_a_silo_that_was_lost_at_once_is_the_simulation_without_it(
    tmp_path: Path,
) -> None:
    town = make_town(
        tmp_path / "town", method="af", rounds=60, epsilon=0.5, secure_aggregation=False
    )
    run, _ = train(town, TownTransport(town, gone_from("columns", 1)), tmp_path / "journal")
    other = simulate(town, tmp_path, without=(LAST,))
    np.testing.assert_allclose(run.trained.outcome.theta, other.trained.outcome.theta, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("time", [1, 3, 9])
def test_lco_ends_at_the_optimum_of_the_silos_that_are_left(tmp_path: Path, time: int) -> None:
    town = make_town(tmp_path / "town", method="lco", epsilon=0.05, secure_aggregation=False)
    run, events = train(town, TownTransport(town, gone_from("local", time)), tmp_path / "journal")
    assert [e["silo"] for e in events if e["event"] == "lost"] == [LAST]
    assert run.trained.outcome.status is Status.CONVERGED
    other = simulate(town, tmp_path, without=(LAST,), engine="pooled")
    assert largest_gap(town, run, other) < 1e-4
    assert run.metrics["train"]["rows"] == without_last(town)
    for silo in run.metrics["by_client"]:
        assert silo["dgeo"] <= town.agreed.epsilon + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lco", "fedfair"])
def test_behind_masks_no_point_is_asked_about_again_without_the_lost_silo(
    tmp_path: Path, method: str
) -> None:
    """Both sums at one point, over four silos and over three, would show the fourth's part."""
    town = make_town(tmp_path / "town", method=method, epsilon=0.05, recount=True)
    points: dict[int, set[bytes]] = {3: set(), 4: set()}

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name == "silo0" and record["step"] == "masked":
            masked.clear()
            masked.update(post.last["silo0"])
        opened = name == "silo0" and record["step"] == "reveal"
        if opened and masked["ask.kind"] in ("round", "local"):
            asked = bytes(masked["ask.question.theta"])
            points[len(unpack_parcels(post.last["silo0"]["answers"]))].add(asked)
        return Fault("is gone") if name == LAST and exchange >= 15 else None

    masked: dict[str, Any] = {}
    post = TownTransport(town, change)
    run, _ = train(town, post, tmp_path / "journal")
    assert run.trained.outcome.status is Status.CONVERGED
    assert run.client_names == town.agreed.names[:-1]
    assert len(points[4]) >= 2
    assert points[3]
    assert not points[3] & points[4]
    other = simulate(town, tmp_path, without=(LAST,), engine="pooled")
    assert largest_gap(town, run, other) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("secure", "killed_after"), [(False, 1), (True, 4), (False, 8)])
def test_lco_resumed_ends_with_the_same_model(
    tmp_path: Path, secure: bool, killed_after: int
) -> None:
    """Silos keep their multipliers, also in a new run of Flower's."""
    town = make_town(tmp_path / "town", method="lco", epsilon=0.05, secure_aggregation=secure)
    rounds = 0

    def kill(name: str, exchange: int, record: Record) -> Record | Fault | None:
        nonlocal rounds
        asked = post.last[name]
        rounds += name == LAST and asked.get("kind", asked.get("ask.kind")) == "local"
        if rounds > killed_after:
            raise KilledError
        return None

    post = TownTransport(town, kill)
    with pytest.raises(KilledError):
        train(town, post, tmp_path / "journal")
    again = TownTransport(town, run="2")
    run, events = train(town, again, tmp_path / "journal", resume=True)
    replayed = [e["kind"] for e in events if e["event"] == "replayed"]
    assert replayed == ["columns", "counts", *["local"] * killed_after]
    assert run.trained.outcome.status is Status.CONVERGED
    whole, _ = train(town, TownTransport(town, run="3"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, whole.trained.outcome.theta)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "time"),
    [("round", 1), ("round", 3), ("counts", 2), ("evaluate", 1), ("evaluate", 5), ("round", 60)],
)
def test_a_search_ends_with_the_model_of_the_silos_that_are_left(
    tmp_path: Path, kind: str, time: int
) -> None:
    """All models that are compared are of the same silos: after a loss it begins anew."""
    town = make_town(tmp_path / "town", secure_aggregation=False, **SEARCH)
    run, events = train(town, TownTransport(town, gone_from(kind, time)), tmp_path / "journal")
    assert [e["silo"] for e in events if e["event"] == "lost"] == [LAST]
    assert run.client_names == town.agreed.names[:-1]
    other = simulate(town, tmp_path, without=(LAST,))
    assert run.trained.epsilon is not None
    assert run.trained.epsilon == pytest.approx(other.trained.epsilon, abs=1e-5)
    assert largest_gap(town, run, other) < 1e-5
    assert run.metrics["train"]["rows"] == without_last(town)
    for key in ("loss", "accuracy", "deo"):
        one, two = run.metrics["train"][key], other.metrics["train"][key]
        assert one == pytest.approx(two, abs=1e-5)


@pytest.mark.slow
def test_a_search_is_resumed_to_the_same_model(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False, **SEARCH)

    def kill(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 30 and name == LAST:
            raise KilledError
        return None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, kill), tmp_path / "journal")
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    undisturbed, _, engine = train_with(town, TownTransport(town), tmp_path / "other")
    assert (run.trained.outcome.theta == undisturbed.trained.outcome.theta).all()
    assert run.trained.epsilon == undisturbed.trained.epsilon
    assert len(engine.entries) <= town.agreed.questions


@pytest.mark.slow
def test_a_silo_lost_while_own_models_are_made_is_not_asked_again(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="st", secure_aggregation=False)
    run, _ = train(town, TownTransport(town, gone_from("separate", 1)), tmp_path / "journal")
    other = simulate(town, tmp_path, without=(LAST,))
    assert run.metrics["train"]["rows"] == without_last(town)
    # The encoder is of four silos, which changes no optimum.
    assert run.metrics["train"]["loss"] == pytest.approx(other.metrics["train"]["loss"], abs=1e-6)
    town = make_town(tmp_path / "more", method="st")

    def late(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == LAST and exchange >= 7 else None

    with pytest.raises(FairSiloError, match="counting rows without it would show its counts"):
        train(town, TownTransport(town, late), tmp_path / "journal")
