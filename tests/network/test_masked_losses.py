"""Two silos lost behind masks: training goes on over the others, never at a point that was opened
with them, and ends where those that are left end by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.data import Encoder, build_labels
from fairsilo.engine import Clientwise, silos_of
from fairsilo.method import METHODS
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.partition.federation import Federation
from fairsilo.question import Problem, Question
from fairsilo.run import Run
from fairsilo.run.problem import Posed, plan
from fairsilo.run.settle import settle
from fairsilo.run.train import train as train_here
from fairsilo.solver import Outcome
from tests.network.silos import Town, TownTransport, make_town, train

SILOS = 7
"""The fewest of which two may be lost."""
LOST = ("silo5", "silo6")
AGAIN = "again"


@dataclass
class Losing(TownTransport):
    """Two silos are gone from the nth question of a kind on, or from the first round (AGAIN) at a
    point that was asked about before."""

    kind: str = ""
    time: int = 1
    asked: set[int] = field(default_factory=set)
    points: dict[bytes, int] = field(default_factory=dict)

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        first = next(iter(letters.values()))
        kind, number = first.get("ask.kind"), first.get("ask.number", 0)
        if kind == self.kind:
            self.asked.add(number)
        if kind == "round" and self.kind == AGAIN:
            theta = first["ask.question.theta"]
            if self.points.setdefault(theta, number) < number and any(np.frombuffer(theta)):
                self.asked.add(number)
        if len(self.asked) < self.time:
            return super().exchange(letters, timeout)
        there = {name: one for name, one in letters.items() if name not in LOST}
        found = super().exchange(there, timeout)
        return found | {name: Fault("is gone") for name in letters if name in LOST}


def losing(tmp_path: Path, kind: str, time: int, **values: Any) -> tuple[Town, Run]:
    """A training that loses two silos."""
    town = make_town(tmp_path / "town", SILOS, 700, **values)
    post = Losing(town, kind=kind, time=time)
    run, events = train(town, post, tmp_path / "journal")
    assert [one["silo"] for one in events if one["event"] == "lost"] == list(LOST)
    assert run.client_names == town.agreed.names[:-2]
    return town, run


def here(town: Town, encoder: Encoder, without: tuple[str, ...] = LOST) -> Clientwise:
    """The same rows in this process."""
    rows = town.table.query("part == 'train' and client not in @without")
    y, s = build_labels(rows, town.agreed.table)
    client = np.array([town.agreed.names.index(name) for name in rows["client"]])
    x = encoder.encode(rows)
    return Clientwise(silos_of(Federation.of(x, y, s, client, groups=2, classes=2)))


def by_those_left(town: Town, run: Run) -> Outcome:
    """What the silos that are left train by themselves, under the encoder of all."""
    encoder = run.prepared.encoder
    if encoder.binned is not None:
        encoder = replace(encoder, binned=replace(encoder.binned, pairs=()))
    posed = replace(run.prepared, encoder=encoder)
    engine = here(town, encoder)

    def learn(crossed: Encoder) -> tuple[Posed, Clientwise]:
        nonlocal engine
        engine = here(town, crossed)
        return replace(posed, encoder=crossed), engine

    settled = settle(run.options, posed, plan(run.options, posed), engine, learn)
    return train_here(run.options, settled, engine).outcome


class Fewer(Clientwise):
    """Silos in this process, two of which leave before the nth question of a kind."""

    def __init__(self, silos: Clientwise, kind: str, time: int) -> None:
        super().__init__(silos.silos)
        self.kind, self.left = kind, time

    def ask(self, problem: Problem, question: Question) -> Any:
        self.left -= question.kind == self.kind
        if self.left == 0 and len(self.silos) == SILOS:
            self.silos, self._totals = self.silos[:-2], {}
        return super().ask(problem, question)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer candidates; nobody pulls the plug."""
    monkeypatch.setattr("fairsilo.method.target.CANDIDATES", 1)
    monkeypatch.setattr("fairsilo.run.settle.TRIED", (1.0, 10.0))
    monkeypatch.setattr("fairsilo.network.secure.AHEAD", 16)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.mark.slow
@pytest.mark.parametrize("time", [1, 3])
def test_af(tmp_path: Path, time: int) -> None:
    """As silos in one process, of which two leave before the same question."""
    town, run = losing(tmp_path, "attack", time, method="af", rounds=6, epsilon=0.5)
    problem = plan(run.options, run.prepared)
    leaving = Fewer(here(town, run.prepared.encoder, without=()), "attack", time)
    expected = METHODS["af"](problem, leaving).outcome
    np.testing.assert_allclose(run.trained.outcome.theta, expected.theta, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "time", "values"),
    [
        ("crossings", 1, {"model": "additive", "penalty": "1", "pairs": "1"}),
        (AGAIN, 1, {"target_deo": 0.05}),
        ("round", 2, {"target_deo": 0.05, "target_by": "search", "rounds": 2}),
        (AGAIN, 2, {"penalty": "validation", "rounds": 2}),
    ],
    ids=["crossings", "proxy", "search", "validation"],
)
def test_what_is_left_ends_where_it_would_have(
    tmp_path: Path, kind: str, time: int, values: dict[str, Any]
) -> None:
    town, run = losing(tmp_path, kind, time, **values)
    expected = by_those_left(town, run)
    np.testing.assert_allclose(run.trained.outcome.theta, expected.theta, atol=1e-4)


@pytest.mark.slow
def test_a_start_that_all_silos_answered_for(tmp_path: Path) -> None:
    """`penalty` auto: the limit starts from the optimum without one. The strengths stay."""
    town, run = losing(tmp_path, AGAIN, 1, penalty="auto", epsilon=0.01)
    problem = plan(run.options, run.prepared)
    everybody = here(town, run.prepared.encoder, without=())
    chosen = settle(run.options, run.prepared, problem, everybody).problem
    limited = replace(chosen, model=problem.model)
    expected = here(town, run.prepared.encoder).solve(limited)
    assert abs(float(expected.last.mu[0])) > 1e-3
    np.testing.assert_allclose(run.trained.outcome.theta, expected.theta, atol=1e-4)
