"""A silo that lies beyond what any rows could give stops the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network import client, masked
from fairsilo.network.audit import audit
from fairsilo.network.federation_file import Privacy
from fairsilo.network.lies import Earlier
from fairsilo.network.server import aggregate_for
from fairsilo.network.silo import answer
from fairsilo.solver import Status
from tests.engine.test_plausible import lied
from tests.network.silos import TownTransport, make_town, train
from tests.network.test_audit import trained

LIAR = "silo1"
TARGET = np.linspace(-3.0, 3.0, 10)

Lie = Callable[[Any, Floats], Floats]


def lying(patch: pytest.MonkeyPatch, kind: str, lie: Lie) -> None:
    """One silo's own program changes its answers of a kind before they are masked or sent."""

    def changed(settings: Any, agreed: Any, ask: Any, memory: Any) -> Floats:
        vector = answer(settings, agreed, ask, memory)
        if settings.name != LIAR or ask.kind != kind:
            return vector
        return lie(ask.question, vector)

    patch.setattr(masked, "answer", changed)
    patch.setattr(client, "answer", changed)


def drawn(strength: float, constant: bool = True) -> Lie:
    return lambda asked, vector: lied(vector, asked.theta, TARGET, strength, constant)


def unseen(patch: pytest.MonkeyPatch) -> None:
    """Switch the defence off."""
    patch.setattr(Earlier, "judge", lambda *args: None)
    patch.setattr(Earlier, "judge_each", lambda *args: None)


@pytest.mark.slow
def test_a_lying_silo_decides_the_model_where_nobody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack 9 of the review, behind masks: it converges at theta*, without a note."""
    town = make_town(tmp_path, silos=3, rows=600, epsilon=5.0)
    lying(monkeypatch, "round", drawn(1e4))
    unseen(monkeypatch)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.trained.outcome.status is Status.CONVERGED
    np.testing.assert_allclose(run.trained.outcome.theta, TARGET, atol=1e-3)
    assert LIAR not in " ".join(run.metrics["notes"])


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("secure", [False, True])
def test_a_lying_silo_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool, constant: bool
) -> None:
    town = make_town(tmp_path, silos=3, rows=600, secure_aggregation=secure)
    lying(monkeypatch, "round", drawn(1e4, constant))
    with pytest.raises(FairSiloError, match=r"\(round\) cannot be right") as told:
        train(town, TownTransport(town), tmp_path / "journal")
    who = "silo0, silo1, silo2" if secure else LIAR
    assert str(told.value).endswith(f"; {who} took part")


@pytest.mark.parametrize(("push", "noticed"), [(0.05, False), (2.0, True)])
def test_a_silo_at_the_edge_of_what_rows_could_give_is_not_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, push: float, noticed: bool
) -> None:
    """A constant push, which bends nothing: rows with other labels could give it, if it is weak."""
    town = make_town(tmp_path, silos=3, rows=600, secure_aggregation=False)

    def lie(asked: Any, vector: Floats) -> Floats:
        found = vector.copy()
        found[0] += push * asked.theta[1]
        found[3] += push
        return found

    lying(monkeypatch, "round", lie)
    if noticed:
        with pytest.raises(FairSiloError, match=f"a gradient is larger .*; {LIAR} took part"):
            train(town, TownTransport(town), tmp_path / "journal")
        return
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.trained.outcome.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("kind", "place", "change"),
    [
        ("columns", 0, 7.0),
        ("counts", 0, -3.0),
        ("counts", 1, 0.5),
        ("evaluate", 0, 5.0),
        ("evaluate", 8, -60.0),
    ],
)
def test_counts_that_disagree_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, place: int, change: float
) -> None:
    town = make_town(tmp_path, silos=3, rows=600, rounds=1, secure_aggregation=False)

    def lie(asked: Any, vector: Floats) -> Floats:
        found = vector.copy()
        found[place] += change
        return found

    lying(monkeypatch, kind, lie)
    with pytest.raises(FairSiloError, match=f"cannot be right: .*; {LIAR} took part"):
        train(town, TownTransport(town), tmp_path / "journal")


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 1e4])
def test_under_differential_privacy_clip_and_noise_are_the_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """An honest private run with much noise passes; a gradient of 10,000 rows does not."""
    town = make_town(tmp_path, silos=3, rows=600, dp=Privacy(epsilon=8.0), rounds=3)
    lying(monkeypatch, "cells", lambda asked, vector: vector + size * (np.arange(len(vector)) == 1))
    if not size:
        train(town, TownTransport(town), tmp_path / "journal")
        return
    with pytest.raises(FairSiloError, match="longer than clipping and noise allow"):
        train(town, TownTransport(town), tmp_path / "journal")


def test_an_audit_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town = make_town(tmp_path / "town", silos=3, rows=600, rounds=1, secure_aggregation=False)
    saved = trained(town, tmp_path)
    lying(
        monkeypatch, "evaluate", lambda asked, vector: vector - 1e3 * (np.arange(len(vector)) == 9)
    )
    post = TownTransport(town, run="2")
    with pytest.raises(FairSiloError, match=r"\(evaluate\) cannot be right"):
        audit(town.agreed, aggregate_for(town.agreed, post, "2", 1.0), post.present(), saved)
