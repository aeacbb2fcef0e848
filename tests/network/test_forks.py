"""A server under a witness that would have the past twice: each question of LCO has one answer, and
what follows a sum follows it once.

The multipliers of LCO live in the silos. Were they forgotten between two runs, one signed question
would be answered twice, with them and without.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import witness
from fairsilo.network.account import asked_of, heard, packed, unpacked
from fairsilo.network.client import reply_to
from fairsilo.network.journal import Journal
from fairsilo.network.replay import Replay
from fairsilo.network.secure import Secure
from fairsilo.network.server import aggregate_for
from fairsilo.network.silo import problem_of
from fairsilo.network.wire import Ask, Record
from tests.network.silos import Town, TownTransport, make_town, restart_witnesses, train


class Stopped(Exception):
    """The server ends before a question is signed."""


class Post(TownTransport):
    """Keeps what the witness is sent and what silos are asked; ends at one of these letters."""

    def __init__(self, town: Town, last: int, run: str = "1") -> None:
        super().__init__(town, run=run)
        self.final, self.letters, self.asked = last, list[Record](), list[Ask]()

    def exchange(self, letters: Any, timeout: float) -> Any:
        if "witness0" in letters:
            self.letters.append(dict(letters["witness0"]))
            if len(self.letters) == self.final:
                raise Stopped
        elif letters["silo0"]["step"] == "masked":
            asked = letters["silo0"].items()
            own = {k.removeprefix("ask."): one for k, one in asked if k.startswith("ask.")}
            self.asked.append(Ask.from_record(own))
        return super().exchange(letters, timeout)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Town, Post, Path]:
    """A training in its second turn: every question but the last was answered."""
    restart_witnesses()
    folder = tmp_path_factory.mktemp("forks")
    town = make_town(folder / "town", watched=1, method="lco", rounds=16)
    post = Post(town, 17)
    with pytest.raises(Stopped):
        train(town, post, folder / "journal")
    return town, post, folder / "journal"


@pytest.mark.slow
@pytest.mark.parametrize("kept", [False, True], ids=["forgotten", "kept"])
def test_a_signed_question_of_lco_has_one_answer(
    kept: bool, begun: tuple[Town, Post, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again in another run, where silos know nothing of the first but what is on disk."""
    town, post, journal = begun
    ask = post.asked[-1]
    assert ask.question.turn > 0  # type: ignore[attr-defined]

    def forgetful(settings: Any, ask: Ask) -> dict[str, list[float]]:
        zeros = [0.0] * 2 * len(problem_of(town.agreed, ask).constraints)
        return {str(ask.question.turn): [ask.question.rho, *zeros]}  # type: ignore[attr-defined]

    if not kept:
        monkeypatch.setattr("fairsilo.network.silo.load_memory", forgetful)
    run = f"again {kept}"
    gather = aggregate_for(town.agreed, TownTransport(town, run=run), run, 1.0)
    assert isinstance(gather, Secure)
    length = ask.question.length(problem_of(town.agreed, ask))
    again = gather._collect(ask, town.agreed.names, length).vector
    first = Journal(journal, town.agreed.fingerprint, resume=True).old[ask.number - 1].vector
    assert first is not None
    assert np.array_equal(again, first) is kept
    (memory, *_) = (town.folder / "silo0" / "models").rglob("*.json")
    assert memory.stat().st_mode & 0o777 == 0o600


def unopened(record: Record) -> Record:
    """The account of a question of which the server says that two silos were lost."""
    opened = ("first", "last", "round", "bundles", "confirmations", "reveals")
    about = json.loads(record["account.about"])
    silos = about["silos"]
    made_up = {**about, "silos": silos[:2], "lost": dict.fromkeys(silos[2:], "is gone")}
    rest = {
        key: one for key, one in record.items()
        if key.removeprefix("account.") not in opened and "vector" not in key
    }  # fmt: skip
    return {**rest, "account.opened": False, "account.about": json.dumps(made_up)}


@pytest.mark.slow
def test_a_sum_at_one_point_is_not_taken_for_a_sum_at_another(
    begun: tuple[Town, Post, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The witness was away when a question was signed, and is told of another one instead."""
    town, post, _ = begun
    (case,) = witness._CASES.values()
    told = post.letters[-1]
    del case.state["signed"][str(told["account.number"])]
    asked = unpacked(told["account.asked"])
    theta = np.frombuffer(asked["question.theta"]) + 1e-3
    other = packed({**asked, "question.theta": theta.tobytes()})
    record = {k: one for k, one in told.items() if not k.startswith("ask.")}
    forged = {**record, "account.asked": other}
    head = (case.folder / "journal" / "head.json").read_bytes()
    tries = list[Any]()

    def replayed(*given: Any) -> Any:
        tries.append(given)
        return Replay(*given)

    monkeypatch.setattr(witness, "Replay", replayed)
    # No silo answered that one: the witness does not look for a tie.
    found = reply_to(forged, str(town.settings("witness0")), {}, post.run)
    assert "does not fit: The masks of round" in found["refused"]
    assert not tries
    # Nor where the server says that the sum was not opened: then no silo signed anything.
    found = reply_to(unopened(forged), str(town.settings("witness0")), {}, post.run)
    assert "is not the one that follows from the sums (theta differs)" in found["refused"]
    assert not tries
    assert not case.tried
    # Had they: it looks once, and its journal stays as it is.
    with monkeypatch.context() as signed:
        true = heard(town.agreed, ask := asked_of(told), ask.digest(), told)
        signed.setattr(witness, "heard", lambda *given: true)
        for _ in range(2):
            found = reply_to(forged, str(town.settings("witness0")), {}, post.run)
            assert "is not the one that follows from the sums (theta differs)" in found["refused"]
    assert len(tries) == witness.TRIES
    assert (case.folder / "journal" / "head.json").read_bytes() == head
    assert not reply_to(record, str(town.settings("witness0")), {}, post.run)["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True])
def test_what_follows_is_signed_once(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has the sum of a round and the next round signed. It goes back by that sum, says
    that two silos are lost in it, and would have their rows counted out instead."""
    restart_witnesses()
    town = make_town(tmp_path / "town", silos=7, rows=700, watched=1, rounds=4)

    class Ending(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            found = super().exchange(letters, timeout)
            if letters.get("witness0", {}).get("ask.number") == 5:
                raise Stopped
            return found

    with pytest.raises(Stopped):
        train(town, Ending(town), tmp_path / "journal")
    max((tmp_path / "journal").glob("*.safetensors")).unlink()
    honest = witness.Case.sign

    def forgetful(case: witness.Case, *given: Any) -> bytes:
        case.state["signed"].clear()
        return honest(case, *given)

    if not guarded:
        monkeypatch.setattr(witness.Case, "sign", forgetful)

    class Losing(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            if any(letters[name].get("step") == "masked" for name in letters):
                self.absent = town.agreed.names[5:]
            return super().exchange(letters, timeout)

    post = Losing(town, run="2")
    if guarded:
        with pytest.raises(FairSiloError, match="another one was signed differs"):
            train(town, post, tmp_path / "journal", resume=True)
        return
    run, _ = train(town, post, tmp_path / "journal", resume=True)
    assert run.client_names == town.agreed.names[:5]
