"""A server under a witness that tells the past otherwise: LCO's next question stays what it was.

The silos of LCO begin anew after an interruption, which only the server knows of.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import witness
from fairsilo.network.client import reply_to
from fairsilo.network.journal import Journal
from fairsilo.network.wire import Record
from tests.network.silos import Town, TownTransport, make_town, train


class Stopped(Exception):
    """The server ends before a question is signed."""


class Post(TownTransport):
    """Keeps what the witness is sent, and ends at one of these letters."""

    def __init__(self, town: Town, last: int, run: str = "1") -> None:
        super().__init__(town, run=run)
        self.final, self.letters = last, list[Record]()

    def exchange(self, letters: Any, timeout: float) -> Any:
        if "witness0" in letters:
            self.letters.append(dict(letters["witness0"]))
            if len(self.letters) == self.final:
                raise Stopped
        return super().exchange(letters, timeout)


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Town, Post]:
    """A training whose witness has signed eight questions and has seven sums."""
    witness._CASES.clear()
    town = make_town(tmp_path / "town", watched=1, method="lco", rounds=12)
    post = Post(town, 9)
    with pytest.raises(Stopped):
        train(town, post, tmp_path / "journal")
    return town, post


@pytest.mark.slow
def test_an_interruption_is_not_put_into_the_past(
    begun: tuple[Town, Post], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every list of interruptions would give another theta, of the server's choice."""
    town, _ = begun
    made = Journal.__init__
    for run, told, accepted in (("2", {8}, True), ("3", {4, 8}, False), ("4", {5, 7, 8}, False)):
        copy = shutil.copytree(tmp_path / "journal", tmp_path / run)

        def lying(self: Journal, *given: Any, told: set[int] = told, **named: Any) -> None:
            made(self, *given, **named)
            if self.old and "witnessed" not in self.folder.parts:
                self.resumed = told

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "__init__", lying)
            post = Post(town, 2, run)
            refusal = pytest.raises(FairSiloError, match=r"question 9 .* is not the one that follo")
            with pytest.raises(Stopped) if accepted else refusal:
                train(town, post, copy, resume=True)


@pytest.mark.slow
def test_a_sum_at_one_point_is_not_taken_for_a_sum_at_another(begun: tuple[Town, Post]) -> None:
    """The server takes back two sums and tells of the first that a silo had to be waited for."""
    town, post = begun
    frame = {k: post.letters[-1][k] for k in ("version", "step", "training", "declared")}

    def sent(run: str, asked: int = 0, told: int = 0, **about: Any) -> str:
        record = dict(frame)
        if asked:
            letter = post.letters[asked - 1]
            record |= {k: one for k, one in letter.items() if k.startswith("ask.")}
        if told:
            letter = post.letters[told]
            record |= {k: one for k, one in letter.items() if k.startswith("account.")}
            known = json.loads(str(record["account.about"]))
            record["account.about"] = json.dumps({**known, **about})
        return str(reply_to(record, str(town.settings("witness0")), {}, run)["refused"])

    assert sent("2", asked=7) == sent("3", asked=6) == ""
    assert sent("3", told=6, waited={"silo0": 1.0}) == ""
    assert "question 7 (local) is not the one that follows" in sent("3", told=7)
