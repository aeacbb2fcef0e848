"""What a lying server asks and a silo refuses: each attack works where its guard is off.

The numbers are those of the review that found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.arrays import Floats
from fairsilo.dp.budget import epsilon_of
from fairsilo.errors import FairSiloError
from fairsilo.network import masked, silo
from fairsilo.network.client import reply_to
from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import read, spend
from fairsilo.network.masked import agreement_of, from_bytes, letter
from fairsilo.network.settings import read_settings
from fairsilo.network.wire import Ask, unpack, unpack_parcels
from fairsilo.question import Counts, NoisyColumns, Question, Round
from fairsilo.secagg import ProtocolError, RepeatRound, ServerSession, static
from tests.network.silos import Town, TownTransport, make_town, train


class Server:
    """Asks what it likes, of whom it likes, and opens what it gets."""

    def __init__(self, town: Town, scalings: Floats, run: str = "9") -> None:
        self.town, self.scalings, self.run = town, scalings, run
        self.memories: dict[str, dict[str, Any]] = {}
        self.session = ServerSession(agreement_of(town.agreed, run))
        self.refused = ""
        self.number = 0

    def send(self, name: str, record: Mapping[str, Any]) -> bytes:
        memory = self.memories.setdefault(name, {})
        reply = reply_to(dict(record), str(self.town.settings(name)), memory, self.run)
        self.refused = self.refused or str(reply["refused"])
        return bytes(reply["content"])

    def set_up(self) -> None:
        first, last = self.session.begin_setup(20)
        named = {"fingerprint": self.town.agreed.fingerprint, "purpose": "fedfair"}
        for name in self.town.agreed.names:
            ask = letter("advertise", first=first, last=last, **named)
            self.session.add_bundle(name, self.send(name, ask))
        bundles = self.session.bundles()
        for name in bundles:
            found = unpack_parcels(self.send(name, letter("share", parcels=bundles)))
            self.session.add_letters(name, found)

    def ask(self, question: Question, survivors: Sequence[str] | None = None) -> Floats | None:
        """The sum over `survivors`, though all are asked; None where a silo refused."""
        agreed, self.refused = self.town.agreed, ""
        if not self.session.rounds_left():
            self.set_up()
        self.number += 1
        ask = Ask(
            question, self.number, agreed.fingerprint, "fedfair",
            encoded=True, scalings=self.scalings, training=f"lie {self.run}",
        )  # fmt: skip
        problem = agreed.problem(self.scalings)
        number = self.session.open_round(question.length(problem), question=ask.digest())
        record = {f"ask.{key}": value for key, value in ask.to_record().items()}
        for name in self.session.roster():
            parcels = self.session.letters_for(name)
            words = self.send(name, letter("masked", round=number, parcels=parcels, **record))
            if words and (survivors is None or name in survivors):
                self.session.add_masked(name, number, from_bytes(words))
        if self.refused:
            return None
        answers = self.session.close_round()
        for name in answers:
            signed = self.send(name, letter("confirm", round=number, answers=answers))
            self.session.add_confirmation(name, number, signed)
        try:
            signatures = self.session.confirmations()
        except RepeatRound:
            return None
        for name in answers:
            ask_shares = letter("reveal", round=number, answers=answers, parcels=signatures)
            shares = self.send(name, ask_shares)
            if shares:
                self.session.add_reveal(name, number, shares)
        return None if self.refused else self.session.total()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Town, Floats]:
    """Four silos whose rows were counted, in an honest run, and the encoder's numbers."""
    folder = tmp_path_factory.mktemp("guards")
    town = make_town(folder / "town", rounds=2)
    run, _ = train(town, TownTransport(town), folder / "journal")
    return town, scalings_of(run.prepared.encoder)


def round_at(town: Town, scalings: Floats, theta: Floats) -> Round:
    problem = town.agreed.problem(scalings)
    rows = town.table.query("part == 'train'")
    cells = rows.groupby(["group", "label"]).size().to_numpy(np.float64)
    totals = np.concatenate([[len(rows)], cells, [4.0] * len(problem.constraints)])
    return Round(theta, np.zeros(len(problem.constraints)), "second", totals)


@pytest.mark.parametrize("guarded", [False, True])
def test_1_the_same_point_over_one_silo_less(
    trained: tuple[Town, Floats], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over four silos and over three: the difference is the fourth's gradient and Hessian."""
    town, scalings = trained
    if not guarded:
        monkeypatch.setattr(masked, "admit_point", lambda *given: None)
    size = town.agreed.problem(scalings).model.size
    point = round_at(town, scalings, np.full(size, 0.1 + 0.1 * guarded))
    server = Server(town, scalings)
    all_ = server.ask(point)
    assert all_ is not None
    three = server.ask(point, town.agreed.names[:3])
    if guarded:
        assert three is None
        assert "over the silos whose rows were counted" in server.refused
        return
    assert three is not None
    problem = town.agreed.problem(scalings)
    ask = Ask(point, 1, town.agreed.fingerprint, "fedfair", encoded=True, scalings=scalings)
    rows = silo._read(read_settings(town.settings("silo3")), town.agreed, None)
    last = silo._encoded(rows, town.agreed, ask, None).silo
    last.min_cell = 5
    np.testing.assert_allclose(all_ - three, point.answer(problem, last), atol=1e-12)


@pytest.mark.slow
def test_1_a_point_that_was_opened_is_opened_again_over_the_same_silos_only(
    tmp_path: Path,
) -> None:
    """Seven silos, two of them lost for good: training goes on over five, at other points."""
    town = make_town(tmp_path / "town", silos=7, rows=1400, rounds=2)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    scalings = scalings_of(run.prepared.encoder)
    size = town.agreed.problem(scalings).model.size
    server, five = Server(town, scalings), town.agreed.names[:5]
    opened = round_at(town, scalings, np.full(size, 0.1))
    assert server.ask(opened) is not None
    assert server.ask(opened) is not None, "over the same silos it shows nothing new"
    assert server.ask(opened, five) is None
    assert server.ask(Counts(), five) is not None
    assert server.ask(opened, five) is None
    assert "were opened over other silos before" in server.refused
    again = Server(town, scalings, run="10")
    assert again.ask(opened, five) is None, "nor in another run"
    assert again.ask(round_at(town, scalings, np.full(size, 0.2)), five) is not None
    start = round_at(town, scalings, np.zeros(size))
    assert again.ask(start, five) is not None, "every training starts at the same point"


@pytest.mark.parametrize("guarded", [False, True])
def test_1_sums_of_which_only_one_silo_knows_all(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times two others are left out, then nobody: x = (A + B + C - 2 ALL) is one silo's.

    That silo knows all four sums and would refuse the last; six others could open it without it.
    """
    town = make_town(tmp_path / "town", silos=7, rows=1400, rounds=2)
    names, scalings = town.agreed.names, np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    if not guarded:
        monkeypatch.setattr(static, "_apart", lambda small, large: len(small ^ large) > 1)
    server = Server(town, scalings)
    start = round_at(town, scalings, np.zeros(town.agreed.problem(scalings).model.size))
    sums: dict[str, list[Floats]] = {"counts": [], "round": []}
    for left in (names[1:3], names[3:5], names[5:7], ()):
        survivors = [name for name in names if name not in left]
        for question in (Counts(), start):
            found = server.ask(question, survivors)
            if found is not None:
                sums[question.kind].append(found)
            else:
                assert "by subtraction" in server.refused or question is start
    if guarded:
        assert len(sums["counts"]) == len(sums["round"]) == 2
        return
    problem = town.agreed.problem(scalings)
    ask = Ask(start, 1, town.agreed.fingerprint, "fedfair", encoded=True, scalings=scalings)
    rows = silo._read(read_settings(town.settings(names[0])), town.agreed, None)
    mine = silo._encoded(rows, town.agreed, ask, None).silo
    mine.min_cell = 5
    for kind, question in (("counts", Counts()), ("round", start)):
        a, b, c, everyone = sums[kind]
        stolen = a + b + c - 2 * everyone
        np.testing.assert_allclose(stolen, question.answer(problem, mine), atol=1e-12)


@pytest.mark.parametrize("guarded", [False, True])
def test_8_more_privacy_than_the_file_promises_of_a_run(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silo has a budget of 30 for all runs: forty questions of one run spent half of it."""
    town = make_town(tmp_path, dp=Privacy(epsilon=8.0), rounds=3, secure_aggregation=False)
    path = town.settings("silo0")
    path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 30.0"))
    if not guarded:
        honest = spend
        monkeypatch.setattr(silo, "spend", lambda *given: honest(*given[:3]))
    monkeypatch.setattr(silo, "allowance", lambda *given: 1000)
    ask = Ask(NoisyColumns(), 1, town.agreed.fingerprint, "fedfair", training="lie")
    memory: dict[str, Any] = {}
    replies = [reply_to(ask.to_record(), str(path), memory, "1") for _ in range(40)]
    spent = epsilon_spent(path.parent / "ledger.json")
    assert (spent > 8) is not guarded
    assert bool(replies[-1]["refused"]) is guarded
    if guarded:
        assert "what the federation file promises of one training" in replies[-1]["refused"]


def epsilon_spent(path: Path) -> float:
    return epsilon_of(tuple(read(path).releases), 1e-5)


@pytest.mark.parametrize("guarded", [False, True])
def test_each_kind_of_question_has_an_end(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = make_town(tmp_path, rounds=2, secure_aggregation=False)
    if not guarded:
        monkeypatch.setattr(silo, "allowance", lambda *given: 1000)
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    size = town.agreed.problem(scalings).model.size
    rng, answered = np.random.default_rng(0), 0
    for number in range(1, 41):
        theta = rng.normal(size=size)
        question = round_at(town, scalings, theta)
        ask = Ask(
            question, number, town.agreed.fingerprint, "fedfair",
            encoded=True, scalings=scalings, training="lie",
        )  # fmt: skip
        # In a new run of Flower's every time: what was answered is in the ledger.
        reply = reply_to(ask.to_record(), str(town.settings("silo0")), {}, str(number))
        answered += len(unpack(reply["vector"])) > 0
    assert answered == (8 if guarded else 40)


@pytest.mark.parametrize("guarded", [False, True])
def test_questions_come_in_their_order(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signed question of an earlier turn of LCO would take the silo's multipliers back."""
    if not guarded:
        monkeypatch.setattr(silo, "_pin", lambda *given: None)
        monkeypatch.setattr(silo, "count", lambda *given: True)
    town = make_town(tmp_path, method="lco", secure_aggregation=False)
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))

    def refused(number: int, memory: dict[str, Any], run: str, training: str = "one") -> str:
        ask = Ask(
            Counts(), number, town.agreed.fingerprint, "lco",
            encoded=True, scalings=scalings, training=training,
        )  # fmt: skip
        return str(reply_to(ask.to_record(), str(town.settings("silo0")), memory, run)["refused"])

    memory: dict[str, Any] = {}
    assert not any(refused(number, memory, "1") for number in (1, 4, 4, 5))
    if not guarded:
        assert not refused(4, memory, "1")
        assert not refused(3, {}, "2")
        return
    assert refused(4, memory, "1") == "question 4 comes after question 5 of the run"
    assert refused(3, {}, "2").startswith("question 3 comes after question 5 of the training")
    assert not refused(4, {}, "2")
    # Neither a number before the first nor a training without a name goes around the order.
    for number in (0, -3):
        assert refused(number, {}, "3").endswith("its questions are numbered from 1")
    assert refused(5, {}, "4", training="").startswith("a training has a name")


@pytest.mark.parametrize("guarded", [False, True])
def test_a_run_names_one_training(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every question could be the first of a training of its own."""
    if not guarded:
        monkeypatch.setattr(silo, "_pin", lambda *given: None)
    town = make_town(tmp_path, secure_aggregation=False)
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    ask = Ask(
        Counts(), 1, town.agreed.fingerprint, "fedfair",
        encoded=True, scalings=scalings, training="one",
    )  # fmt: skip
    memory: dict[str, Any] = {}
    settings = str(town.settings("silo0"))
    assert not reply_to(ask.to_record(), settings, memory, "1")["refused"]
    other = replace(ask, training="two").to_record()
    told = reply_to(other, settings, memory, "1")["refused"]
    assert ("another training" in told) is guarded
    assert bool(told) is guarded


@pytest.mark.parametrize("guarded", [False, True])
def test_a_refusal_is_no_oracle(
    trained: tuple[Town, Floats], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far a scale can be lowered until a silo refuses would tell its largest number."""
    town, scalings = trained
    if not guarded:
        monkeypatch.setattr(masked, "sendable", lambda vector: (vector, False))
    steep = scalings.copy()
    steep[1::3] = 1e-12
    size = town.agreed.problem(scalings).model.size
    server = Server(town, steep, run=f"oracle {guarded}")
    steeper = round_at(town, scalings, np.zeros(size))
    if guarded:
        with pytest.raises(ProtocolError, match="4 of the silos silo0, silo1, silo2, silo3 had"):
            server.ask(steeper)
        assert not server.refused
    else:
        assert server.ask(steeper) is None
        assert "do not fit" in server.refused


@pytest.mark.parametrize("guarded", [False, True])
def test_that_a_silo_has_huge_numbers_shows_in_the_sum_alone(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sums of squares are infinite; all silos answer alike."""
    if not guarded:
        monkeypatch.setattr(masked, "sendable", lambda vector: (vector, False))
    town = make_town(tmp_path / "town", rounds=1)
    path = town.folder / "silo3" / "table.csv"
    table = pd.read_csv(path)
    table.loc[0, town.agreed.table.numbers[0]] = 1e200
    table.to_csv(path, index=False)
    post = TownTransport(town)
    told = pytest.raises(FairSiloError, match="1 of the silos silo0, silo1, silo2, silo3 had")
    with told if guarded else nullcontext():
        train(town, post, tmp_path / "journal")
    refused = {name for name, record in post.seen if record["refused"]}
    assert refused == (set() if guarded else {"silo3"})


def test_how_many_rows_a_silo_has_is_no_reason_to_refuse(trained: tuple[Town, Floats]) -> None:
    town, scalings = trained
    size = town.agreed.problem(scalings).model.size
    few = round_at(town, scalings, np.zeros(size))
    few = replace(few, totals=np.ones_like(few.totals))
    assert Server(town, scalings, run="few").ask(few) is not None
