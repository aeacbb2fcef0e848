"""The steering silo: one that lies about its sums and sees the totals reads another silo's row.

Server, masks and solver are honest, and a witness approves of every question. The silo adds a
quadratic to its answers, whose minimum is where it wants to be asked next: at theta = S (x_0 - c),
c falling from round to round, where rows above c have probability 1 and others 0. The totals less
what it sent are the others' sums; two of them that differ by one row differ by that row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network import replay, silo
from fairsilo.network.encoding import encoder_of
from fairsilo.network.wire import Ask
from tests.network.silos import Town, TownTransport, make_town, restart_witnesses, train

LIAR = "silo3"
PULL = 1e4
"""The curvature of the quadratic, beyond which the others' is nothing."""
POINTS = [(1.5, 3.2), (9.0, 3.2), (45.0, 3.2), *((140.0, c) for c in np.linspace(3.2, 1.8, 15))]
"""Slopes S and places c: no question is too steep for the silos, no step too long for Newton."""


class Liar:
    """The silo, and what it remembers of the totals that it is shown."""

    def __init__(self, town: Town) -> None:
        self.town, self.rows = town, 0.0
        self.sent: dict[int, Floats] = {}
        self.seen: dict[int, Floats] = {}

    def lie(self, ask: Ask, vector: Floats) -> Floats:
        """The answer with a quadratic whose minimum is the next point."""
        theta, self.rows = ask.question.theta, ask.question.totals[0]  # type: ignore[attr-defined]
        names = list(encoder_of(self.town.agreed.table, ask.scalings).feature_names)
        slope, place = POINTS[min(len(self.sent), len(POINTS) - 1)]
        wanted = np.zeros_like(theta)
        wanted[[0, 1 + names.index("x0")]] = -slope * place, slope
        own, (rows, columns) = vector.copy(), np.triu_indices(len(theta))
        own[0] += 1e9 - 1e6 * len(self.sent)
        own[2 : 2 + len(theta)] += PULL * (theta - wanted)
        own[-len(rows) :][rows == columns] += PULL
        self.sent[ask.number] = own
        return own

    def read(self, size: int) -> Floats | None:
        """A row of another silo, (1, encoded row), where one lies between two points."""
        both = sorted(set(self.sent) & set(self.seen))
        grads = [(self.seen[n] - self.sent[n])[2 : 2 + size] for n in both][4:]
        for one in grads:
            apart = one - grads[0]
            if abs(apart[0] * self.rows - 1) < 0.01:
                return np.asarray(apart / apart[0])
        return None


@pytest.mark.slow
@pytest.mark.parametrize("judged", [False, True])
def test_a_silo_that_is_shown_totals_reads_anothers_row(
    judged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a witness who is its friend. Where sums are held to what rows can give it is noticed."""
    restart_witnesses()
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    town = make_town(tmp_path / "town", watched=1, rounds=len(POINTS) + 1, epsilon=100.0)
    liar, honest, shown = Liar(town), silo.answer, replay.Replay.collect

    def answer(settings: Any, agreed: Any, ask: Ask, memory: Any) -> Floats:
        vector = honest(settings, agreed, ask, memory)
        lies = settings.name == LIAR and ask.kind == "round"
        return liar.lie(ask, vector) if lies else vector

    def collect(self: Any, ask: Ask, *given: Any) -> Any:
        found = shown(self, ask, *given)
        liar.seen[ask.number] = found.vector
        return found

    monkeypatch.setattr("fairsilo.network.masked.answer", answer)
    monkeypatch.setattr(replay.Replay, "collect", collect)
    if judged:
        with pytest.raises(FairSiloError, match="cannot be right"):
            train(town, TownTransport(town), tmp_path / "journal")
        return
    monkeypatch.setattr("fairsilo.network.lies.refuse_implausible", lambda *given: None)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    others = town.table.query("part == 'train' and client != @LIAR")
    row = others.loc[[others["x0"].idxmax()]]
    victim = np.concatenate([[1.0], run.prepared.encoder.transform(row)[0]])
    found = liar.read(len(victim))
    assert found is not None
    np.testing.assert_allclose(found, victim, atol=1e-3)
    # Without the totals it has what it sent, and the questions.
    liar.seen.clear()
    assert liar.read(len(victim)) is None
