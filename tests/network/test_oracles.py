"""A question that only some rows could not answer: who refused it would tell of these rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network import silo
from fairsilo.network.encoding import encoder_of, scalings_of
from fairsilo.question import Crossings, Round, crossings
from tests.network.silos import Town, TownTransport, make_town, train
from tests.network.test_guards import Server

LOW = "silo0"
"""The silo in which no value of x0 is above zero."""


class Each(Server):
    """Notes what each silo says for itself."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.said: dict[str, str] = {}

    def send(self, name: str, record: Any) -> bytes:
        before, self.refused = self.refused, ""
        content = super().send(name, record)
        self.said[name], self.refused = self.refused, before or self.refused
        return content


def failing(agreed: Any, length: int, error: Exception) -> Floats:
    raise error


@pytest.fixture(scope="module")
def additive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Town, Floats]:
    folder = tmp_path_factory.mktemp("additive")
    town = make_town(folder / "town", rounds=2, model="additive", pairs=1, epsilon=5.0)
    path = town.folder / LOW / "table.csv"
    rows = pd.read_csv(path)
    rows.assign(x0=-rows["x0"].abs()).to_csv(path, index=False)
    run, _ = train(town, TownTransport(town), folder / "journal")
    encoder = run.prepared.encoder
    return town, scalings_of(encoder)


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True])
def test_who_refuses_pairs_of_other_columns_tells_its_largest_value(
    additive: tuple[Town, Floats], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first feature is said to have as many columns as lie below zero, the second the rest: a
    silo with a row above has a cell that there is not. Bisection tells every silo's largest x0."""
    town, scalings = additive
    if not guarded:
        monkeypatch.setattr(crossings, "fitting_columns", lambda widths, x: x)
        monkeypatch.setattr(silo, "_failed", failing)
    encoder = encoder_of(town.agreed.table, scalings)
    assert encoder.binned is not None
    first, second, *rest = (one.width for one in encoder.binned.blocks(town.agreed.table))
    below = int(np.searchsorted(encoder.binned.steps[0].edges, 0.0)) + 1
    widths = np.array([below, first + second - below, *rest], np.float64)
    coarse = np.zeros(int(widths.sum()))
    theta = np.zeros(town.agreed.problem(scalings).model.size)
    server = Each(town, scalings, f"oracle {guarded}")
    question = Crossings(theta, widths, coarse, np.zeros(0))
    assert server.ask(question) is None
    refused = {name for name, why in server.said.items() if why}
    assert refused == {*town.agreed.names} - ({LOW} if not guarded else set())
    assert len({*server.said.values()}) == (1 if guarded else 2)


@pytest.mark.parametrize("guarded", [False, True])
def test_that_a_question_fails_on_a_silos_rows_shows_in_the_sum_alone(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason is: of one that nobody found yet only the silo's own log tells."""
    town = make_town(tmp_path / "town", rounds=2)
    honest = Round.answer

    def answer(question: Round, problem: Any, own: Any) -> Floats:
        if own.index == 2:
            raise IndexError("a cell that there is not")
        return honest(question, problem, own)

    monkeypatch.setattr(Round, "answer", answer)
    if not guarded:
        monkeypatch.setattr(silo, "_failed", failing)
    post = TownTransport(town)
    told = "1 of the silos silo0, silo1, silo2, silo3 had" if guarded else "silo2 refused"
    with pytest.raises(FairSiloError, match=told):
        train(town, post, tmp_path / "journal")
    assert {name for name, record in post.seen if record["refused"]} == (
        set() if guarded else {"silo2"}
    )
