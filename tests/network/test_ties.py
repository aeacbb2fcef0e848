"""A solver's decision that hangs by the last digit: a witness goes on as the server did.

Server and witness have the same sums and the same code. Here each decides with a threshold of its
own, as two processors do, and the sums are such that a comparison lies at it, or does not.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.wire import Record
from fairsilo.solver import Newton
from fairsilo.solver.subproblem import merit
from tests.network.silos import Town, TownTransport, make_town, restart_witnesses, train

ROUND = 4
"""The round whose sums are at a tie."""
NEAR, FAR = 3e-16, 1e-6
HONEST = Newton.step


def at_server() -> bool:
    """A witness replays in a thread of its own."""
    return threading.current_thread() is threading.main_thread()


def of_solver(step: Any) -> Any:
    """As a method of the solver, which it gets first."""

    def method(solver: Newton, state: Any, sums: Any) -> Any:
        return step(solver, state, sums)

    return method


class Stopping:
    """The tolerance is the residual of one round: there training ends, or goes on."""

    def __init__(self) -> None:
        self.residual = np.inf
        self.apart = {True: 0.0, False: 0.0}

    def note(self, solver: Newton, state: Any, sums: Any) -> Any:
        found = HONEST(solver, state, sums)
        if int(state.k) == ROUND:
            self.residual = max(float(found.record.residual), float(found.record.violation))
        return found

    def step(self, solver: Newton, state: Any, sums: Any) -> Any:
        tolerance = self.residual * (1 + self.apart[at_server()])
        return HONEST(replace(solver, tolerance=tolerance), state, sums)


class Accepting(Stopping):
    """The loss of one trial is just what a step must reach to be accepted."""

    missing = 0.0

    def note(self, solver: Newton, state: Any, sums: Any) -> Any:
        if int(state.k) == ROUND:
            after = merit(sums.loss, sums.d, state.epsilon, state.rho)
            worst = np.max(state.past_loss + state.rho * state.past_excess)
            self.missing = float(worst - 1e-4 * state.predicted - after)
            self.missing += 1e-13 * (1 + abs(float(after) + self.missing))
        return HONEST(solver, state, sums)

    def step(self, solver: Newton, state: Any, sums: Any) -> Any:
        if int(state.k) == ROUND:
            sums = replace(sums, loss=sums.loss + self.missing - self.apart[at_server()])
        return HONEST(solver, state, sums)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return make_town(tmp_path_factory.mktemp("town"), watched=1, rows=400, rounds=12)


@pytest.fixture(scope="module", params=[Stopping, Accepting], ids=["stop", "accept"])
def decision(
    request: pytest.FixtureRequest, town: Town, tmp_path_factory: pytest.TempPathFactory
) -> Stopping:
    """A decision, with what one training told of it."""
    made: Stopping = request.param()
    restart_witnesses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Newton, "step", of_solver(made.note))
        train(town, TownTransport(town, run="first"), tmp_path_factory.mktemp("first"))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("server", [-1, 1])
@pytest.mark.parametrize("apart", [NEAR, FAR], ids=["tie", "far"])
def test_either_way_at_a_tie_and_one_way_elsewhere(
    decision: Stopping, apart: float, server: int, town: Town, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also where the witness's process is another one for every message."""
    decision.apart = {True: server * apart, False: -server * apart}
    monkeypatch.setattr(Newton, "step", of_solver(decision.step))

    def forget(name: str, exchange: int, record: Record) -> None:
        if name == "witness0":
            restart_witnesses()

    run = f"{type(decision).__name__} {apart} {server}"
    post = TownTransport(town, forget, run=run)
    if apart == FAR:
        with pytest.raises(FairSiloError, match="is not the one that follows from the sums"):
            train(town, post, tmp_path / "journal")
        return
    train(town, post, tmp_path / "journal")
    states = [json.loads(one.read_text()) for one in town.folder.rglob("state.json")]
    (ties,) = (one["ties"] for one in states if one["run"] == run)
    assert len(ties) == 1
