"""What the server tells a witness of a question: who was asked, and who was lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import replay
from fairsilo.network.accounts import Accounts
from fairsilo.network.secure import Secure
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask
from tests.network.silos import TownTransport, make_town, restart_witnesses, train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarded", "claimed"), [(False, False), (True, False), (True, True)],
    ids=["off", "left out", "said to be there"],
)  # fmt: skip
def test_a_silo_that_is_left_out_must_be_said_to_be_lost(
    tmp_path: Path, guarded: bool, claimed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five of seven silos were counted in an earlier training, so that ledgers admit sums over
    five. The server leaves two out of a round and tells nobody, or says that they are in the sum:
    an honest one would count anew."""
    restart_witnesses()
    town = make_town(tmp_path / "town", silos=7, rows=1050, watched=1, rounds=4)
    five = town.agreed.names[:5]
    train(town, TownTransport(town, absent=town.agreed.names[5:]), tmp_path / "first")
    honest, rounds = Secure._collect, list[int]()

    def collect(self: Any, ask: Ask, silos: Sequence[str], length: int) -> Any:
        if ask.kind == "round":
            rounds.append(len(silos))
        found = honest(self, ask, five if len(rounds) == 2 else silos, length)
        return replace(found, silos=tuple(silos)) if claimed else found

    monkeypatch.setattr(Secure, "_collect", collect)
    if not guarded:
        monkeypatch.setattr(replay, "check_asked", lambda *given: None)
        # Only in the end, when all rows are counted again, does the sum not fit.
        with pytest.raises(FairSiloError, match="fewer training rows than were counted"):
            train(town, TownTransport(town, run="2"), tmp_path / "second")
        assert rounds[:3] == [7, 7, 5]
        return
    told = "is over other silos than it says" if claimed else "is over others than were asked"
    with pytest.raises(FairSiloError, match=told):
        train(town, TownTransport(town, run="2"), tmp_path / "second")
    assert rounds == [7, 7]


def test_what_witnesses_were_not_told_is_on_the_disk_and_not_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Accounts(["here", "away"], tmp_path / "told")
    for number in (1, 2, 3):
        kept.put(number, {"account.number": number, "account.vector a": bytes([number] * 1000)})
        kept.had("here", number)
    assert (kept.missing("here"), kept.missing("away")) == ([], [1, 2, 3])
    again = Accounts(["here", "away"], tmp_path / "told", last=2)
    assert (again.missing("here"), again.missing("away")) == ([], [1, 2])
    assert again.get(2) == {"account.number": 2, "account.vector a": bytes([2] * 1000)}
    monkeypatch.setattr("fairsilo.network.accounts.LARGEST", 2500)
    again.put(3, {"account.vector a": bytes(1000)})
    assert set(again.have) == {"here"}
    assert len(list((tmp_path / "told").glob("*.safetensors"))) == 2
    again.had("here", 3)
    assert not list((tmp_path / "told").glob("*.safetensors"))


def test_a_witness_that_was_away_is_told_what_others_signed_and_signs_again(tmp_path: Path) -> None:
    restart_witnesses()
    town = make_town(tmp_path / "town", watched=3, quorum=2, rounds=8)

    class Away(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            gone = 8 < self.traffic.exchanges < 20 and "witness0" in letters
            there = {name: one for name, one in letters.items() if not gone or name != "witness0"}
            found = super().exchange(there, timeout)
            return found | ({"witness0": Fault("is gone", gone=True)} if gone else {})

    post = Away(town)
    train(town, post, tmp_path / "journal")
    states = sorted((town.folder / "witness0" / "witnessed").glob("*/state.json"))
    (own,) = (json.loads(path.read_text())["signed"] for path in states)
    everything = [record for name, record in post.seen if name == "witness1"]
    assert 3 < len(own) < len(everything) - 1
    assert str(len(everything)) in own
