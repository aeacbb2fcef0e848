"""A training under witnesses that was interrupted, lost silos or whose witness was away goes on."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import witness, witnesses
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import Privacy
from fairsilo.network.journal import Entry, Journal
from fairsilo.network.private_engine import PrivateNetwork
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.solver import Status
from tests.network.silos import (
    Town,
    TownTransport,
    make_town,
    restart_witnesses,
    train,
    train_with,
)
from tests.network.test_masked_losses import Losing

pytestmark = pytest.mark.usefixtures("restarted")


@pytest.mark.slow
def test_a_witness_that_was_started_anew_goes_on(watched: Town, tmp_path: Path) -> None:
    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name == "witness0" and exchange % 3 == 0:
            restart_witnesses()
        return None

    run, _ = train(watched, TownTransport(watched, change), tmp_path / "journal")
    same, _ = train(watched, TownTransport(watched, run="2"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


@pytest.mark.slow
@pytest.mark.parametrize("lost_sum", [False, True])
def test_an_interrupted_training_goes_on_under_its_witness(
    lost_sum: bool, watched: Town, tmp_path: Path
) -> None:
    """Also where the server lost the last sum, which the witness has."""

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 25:
            raise KeyboardInterrupt
        return None

    with pytest.raises(KeyboardInterrupt):
        train(watched, TownTransport(watched, change), tmp_path / "journal")
    kept = sorted((tmp_path / "journal").glob("*.safetensors"))
    assert len(kept) > 3
    if lost_sum:
        kept[-1].unlink()
    run, _ = train(watched, TownTransport(watched, run="2"), tmp_path / "journal", resume=True)
    same, _ = train(watched, TownTransport(watched, run="3"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
def test_lco_goes_on_under_its_witness_as_often_as_it_is_killed(
    asked: bool, tmp_path: Path
) -> None:
    """Before or after the witness signed; silos keep their multipliers."""
    town = make_town(tmp_path / "town", watched=1, method="lco", rounds=12)

    class Post(TownTransport):
        signed = 0

        def exchange(self, letters: Any, timeout: float) -> Any:
            self.signed += "witness0" in letters
            if self.signed == 4 and ("witness0" in letters) is not asked:
                raise KeyboardInterrupt
            return super().exchange(letters, timeout)

    for run in ("1", "2"):
        with pytest.raises(KeyboardInterrupt):
            train(town, Post(town, run=run), tmp_path / "journal", resume=run == "2")
    killed, _ = train(town, TownTransport(town, run="3"), tmp_path / "journal", resume=True)
    whole, _ = train(town, TownTransport(town, run="4"), tmp_path / "other")
    np.testing.assert_array_equal(killed.trained.outcome.theta, whole.trained.outcome.theta)


@pytest.mark.slow
def test_a_witness_that_missed_a_whole_run_signs_again(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", watched=3, quorum=2, rounds=6)

    def stop(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 18:
            raise KeyboardInterrupt
        return None

    for run in ("1", "2"):
        post = TownTransport(town, stop, absent=("witness0",) * (run == "2"), run=run)
        with pytest.raises(KeyboardInterrupt):
            train(town, post, tmp_path / "journal", resume=run == "2")
    post = TownTransport(town, run="3")
    train(town, post, tmp_path / "journal", resume=True)
    assert any(len(one["content"]) > 90 for name, one in post.seen if name == "witness0")


@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True], ids=["killed", "away"])
def test_a_private_training_goes_on_under_its_witness_and_pays_for_what_it_asks_twice(
    away: bool, tmp_path: Path
) -> None:
    """Where the server was killed, and where the witness was away: it was told nothing of a
    question that the server had paid for."""
    town = make_town(tmp_path / "town", watched=1, dp=Privacy(epsilon=8.0), rounds=4, epsilon=0.1)

    class Post(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            if away and self.traffic.exchanges > 12 and "witness0" in letters:
                return {"witness0": Fault("is not connected", gone=True)}
            return super().exchange(letters, timeout)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 15 and not away:
            raise KeyboardInterrupt
        if name == "witness0":
            # Its process is another one for every message.
            restart_witnesses()
        return None

    with pytest.raises(FairSiloError if away else KeyboardInterrupt):
        train(town, Post(town, change), tmp_path / "journal")
    again = TownTransport(town, run="2")
    run, _, engine = train_with(town, again, tmp_path / "journal", resume=True)
    assert run.metrics["rounds"] == 3
    assert run.metrics["dp"]["epsilon_spent"] <= 8
    assert isinstance(engine, PrivateNetwork)
    (case,) = witness._CASES.values()
    assert Counter(case.replay.journal.releases) == Counter(engine.ledger.releases)


@pytest.mark.slow
@pytest.mark.parametrize("honest", [False, True])
def test_what_was_paid_before_the_first_sum_stays_paid(
    honest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sum was lost, so that the witness has none; silos paid for it all the same."""
    town = make_town(tmp_path / "town", watched=1, dp=Privacy(epsilon=8.0), rounds=2, epsilon=0.1)

    def stop(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 5:
            raise KeyboardInterrupt
        return None

    for run in ("1", "2"):
        with pytest.raises(KeyboardInterrupt):
            train(town, TownTransport(town, stop, run=run), tmp_path / "journal", resume=run == "2")
    restart_witnesses()
    post = TownTransport(town, run="3")
    if honest:
        train(town, post, tmp_path / "journal", resume=True)
        return
    monkeypatch.setattr(witnesses, "_paid", lambda journal: [])
    with pytest.raises(FairSiloError, match="paid for less than this witness saw it ask"):
        train(town, post, tmp_path / "journal", resume=True)


class Cut(TownTransport):
    """The server is killed once the witness signed question 4, which it told the third sum with,
    and before it has the signature."""

    told: Record

    def exchange(self, letters: Any, timeout: float) -> Any:
        found = super().exchange(letters, timeout)
        record = dict(letters.get("witness0", {}))
        if self.run == "1" and record.get("ask.number") == 4:
            self.told = record
            raise KeyboardInterrupt
        return found


def noisy(folder: Path) -> Town:
    """A private town under a witness."""
    return make_town(folder, rows=400, watched=1, dp=Privacy(epsilon=8.0), rounds=4, epsilon=0.1)


def counted(town: Town) -> Counter[str]:
    """What the witness counts, by name; from its disk."""
    (head,) = (town.folder / "witness0").rglob("head.json")
    return Counter(name for name, _ in json.loads(head.read_text())["releases"])


@pytest.mark.slow
@pytest.mark.parametrize("lost_sum", [False, True])
def test_a_question_signed_in_two_runs_is_paid_for_twice_whatever_is_told_with_it(
    lost_sum: bool, tmp_path: Path
) -> None:
    """Where the server lost the sum, too, another one comes, and what follows is signed anew."""
    town = noisy(tmp_path / "town")
    with pytest.raises(KeyboardInterrupt):
        train(town, Cut(town), tmp_path / "journal")
    if lost_sum:
        max((tmp_path / "journal").glob("*.safetensors")).unlink()
    run, _, engine = train_with(town, Cut(town, run="2"), tmp_path / "journal", resume=True)
    assert isinstance(engine, PrivateNetwork)
    assert run.metrics["dp"]["epsilon_spent"] <= 8
    assert counted(town) == Counter(one.name for one in engine.ledger.releases)
    # Asked again the first round costs its curvature, too: there is room for no second one.
    assert counted(town)["gradients"] == (3 if lost_sum else 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "guarded"),
    [(False, False), (False, True), (True, True)],
    ids=["off", "at once", "after a sum"],
)
def test_an_old_letter_does_not_make_a_witness_forget_what_was_paid(
    before: bool, guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question is signed again only where the server says that it pays again, also where the
    letter first tells of a sum that the witness has already."""
    town = noisy(tmp_path / "town")
    post = Cut(town)
    with pytest.raises(KeyboardInterrupt):
        train(town, post, tmp_path / "journal")
    settings, once = str(town.settings("witness0")), counted(town)
    declared = json.loads(post.told["declared"])
    sums = {key: one for key, one in post.told.items() if not key.startswith("ask.")}

    def signed(run: str, paid: list[Any]) -> str:
        rest = {"declared": json.dumps({**declared, "paid": paid}, sort_keys=True)}
        if before:
            assert not reply_to({**sums, **rest}, settings, {}, run)["refused"]
        return str(reply_to({**post.told, **rest}, settings, {}, run)["refused"])

    if not guarded:
        monkeypatch.setattr(witness, "_no_less", lambda paid, counted: paid)
        assert not any(signed(run, declared["paid"]) for run in ("2", "3", "4"))
        assert counted(town) == once
        return
    for run in ("2", "3"):
        assert "paid for less than this witness saw it ask" in signed(run, declared["paid"])
        assert counted(town) == once
    (case,) = (town.folder / "witness0").rglob("head.json")
    releases = Counter(map(tuple, json.loads(case.read_text())["releases"]))
    assert not signed("4", [[*one, times] for one, times in releases.items()])
    assert counted(town) == once + Counter({"gradients": 1, "losses": 1})
    restart_witnesses()
    assert "paid for less" in signed("5", declared["paid"])


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_a_sum_that_a_witness_says_it_has_is_on_its_disk(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no question comes with it: the server never tells of it again."""
    town = noisy(tmp_path / "town")
    post = Cut(town)
    with pytest.raises(KeyboardInterrupt):
        train(town, post, tmp_path / "journal")
    restart_witnesses()
    sums = {key: one for key, one in post.told.items() if not key.startswith("ask.")}
    (last,) = (town.folder / "witness0").rglob("000003.safetensors")
    last.unlink()
    honest = Journal.append

    def append(self: Journal, entry: Entry) -> None:
        if full:
            raise FairSiloError("the disk is full")
        time.sleep(0.5)
        honest(self, entry)

    monkeypatch.setattr(Journal, "append", append)
    reply = reply_to(sums, str(town.settings("witness0")), {}, "1")
    assert bool(reply["refused"]) is full
    assert last.exists() is not full


@pytest.mark.slow
def test_two_lost_silos_are_counted_out_under_a_witness(tmp_path: Path) -> None:
    """To the model, to the last bit, that a training without a witness ends with."""
    found = []
    for watched in (0, 1):
        place = tmp_path / f"town{watched}"
        town = make_town(place, silos=7, rows=700, watched=watched, others=True, rounds=30)
        post = Losing(town, kind="round", time=3)
        run, events = train(town, post, tmp_path / f"journal{watched}")
        assert [one["silo"] for one in events if one["event"] == "lost"] == ["silo5", "silo6"]
        found.append(run.trained.outcome)
    assert found[1].status is Status.CONVERGED
    np.testing.assert_array_equal(found[0].theta, found[1].theta)


@pytest.mark.slow
def test_a_training_goes_on_when_a_witness_that_was_away_is_back(
    watched: Town, tmp_path: Path
) -> None:
    """It was not told the last sum, which is asked for again."""

    class Away(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            if self.traffic.exchanges > 18 and "witness0" in letters:
                return {"witness0": Fault("is not connected", gone=True)}
            return super().exchange(letters, timeout)

    with pytest.raises(FairSiloError, match="use `resume` when they are back"):
        train(watched, Away(watched), tmp_path / "journal")
    run, _ = train(watched, TownTransport(watched, run="2"), tmp_path / "journal", resume=True)
    same, _ = train(watched, TownTransport(watched, run="3"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


@pytest.mark.slow
def test_what_was_signed_stays_signed(watched: Town, tmp_path: Path) -> None:
    """A server that goes back, run by run, gets no other question signed in its place."""

    def stop(at: int) -> Any:
        def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
            if exchange == at:
                raise KeyboardInterrupt
            return None

        return change

    with pytest.raises(KeyboardInterrupt):
        train(watched, TownTransport(watched, stop(25)), tmp_path / "journal")
    for number in range(3):
        max((tmp_path / "journal").glob("*.safetensors")).unlink()
        post = TownTransport(watched, stop(2), run=f"back {number}")
        with pytest.raises(KeyboardInterrupt):
            train(watched, post, tmp_path / "journal", resume=True)
    (state,) = (
        path
        for path in (watched.folder / "witness0" / "witnessed").glob("*/state.json")
        if json.loads(path.read_text())["run"] == "back 2"
    )
    kept = len(list((state.parent / "journal").glob("*.safetensors")))
    assert len(json.loads(state.read_text())["signed"]) > kept + 2
    written = [path for path in state.parent.rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)


def test_a_server_cannot_fill_a_witness_with_trainings(watched: Town) -> None:
    """A run names one, and only a few wait in memory; the others go on from the disk."""
    declared = json.dumps({"baseline": False, "start": "", "paid": []})
    settings, memory = str(watched.settings("witness0")), dict[str, Any]()

    def told(number: int, memory: dict[str, Any]) -> str:
        record = {"version": 2, "step": "witness", "training": f"{number}", "declared": declared}
        return str(reply_to(record, settings, memory, f"fill {number}")["refused"])

    assert not told(0, memory)
    assert told(1, memory) == "the server named another training within a run"
    replays = [case.replay for case in witness._CASES.values()]
    for number in (*range(1, witness.AT_ONCE + 1), 0):
        assert not told(number, {})
    assert len(witness._CASES) == witness.AT_ONCE
    assert replays[0] not in [case.replay for case in witness._CASES.values()]
    replays[0].thread.join(timeout=60)
    assert not replays[0].thread.is_alive()
