"""Witnesses replay the training: what they did not sign, no silo answers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import witness, witnesses
from fairsilo.network.client import reply_to
from fairsilo.network.encoding import encoder_of
from fairsilo.network.federation_file import FederationFile, Privacy
from fairsilo.network.private_engine import PrivateNetwork
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record
from fairsilo.solver import Status
from tests.network.silos import Town, TownTransport, make_town, train, train_with
from tests.network.test_masked_losses import Losing


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Every test has a witness's process of its own."""
    witness._CASES.clear()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return make_town(tmp_path_factory.mktemp("town"), watched=1, rounds=30)


def lying(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that changes what it is about to ask, before witnesses and silos see it."""
    honest = witnesses.Witnesses.signed

    def signed(self: Any, ask: Ask, *given: Any) -> Ask:
        return honest(self, change(ask), *given)

    monkeypatch.setattr(witnesses.Witnesses, "signed", signed)


@pytest.mark.slow
def test_a_witnessed_training_gives_the_same_model(town: Town, tmp_path: Path) -> None:
    post = TownTransport(town)
    run, _ = train(town, post, tmp_path / "journal", baseline=True)
    plain = make_town(tmp_path / "plain", rounds=30, others=True)
    same, _ = train(plain, TownTransport(plain), tmp_path / "plain-journal", baseline=True)
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)
    signed = [record for name, record in post.seen if name == "witness0"]
    assert all(record["step"] == "witness" and len(record["content"]) > 90 for record in signed)
    asked = [record for name, record in post.seen if record["step"] == "masked"]
    assert len(asked) == 4 * len(signed)


def test_no_silo_answers_what_no_witness_signed(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses.Witnesses, "signed", lambda self, ask, *given: ask)
    post = TownTransport(town)
    with pytest.raises(FairSiloError, match="0 witnesses signed this question"):
        train(town, post, tmp_path / "journal")
    assert not any(record["content"] for _, record in post.seen if record["step"] == "masked")


def other_theta(ask: Ask) -> Ask:
    theta = getattr(ask.question, "theta", np.zeros(0))
    if not theta.any():
        return ask
    return replace(ask, question=replace(ask.question, theta=theta + 1e-6))  # type: ignore[call-arg]


def other_totals(ask: Ask) -> Ask:
    if ask.kind != "round":
        return ask
    totals = ask.question.totals  # type: ignore[attr-defined]
    return replace(ask, question=replace(ask.question, totals=totals * 1.01))  # type: ignore[call-arg]


def other_encoder(ask: Ask) -> Ask:
    return replace(ask, scalings=ask.scalings * 1.001) if ask.encoded else ask


def other_history(ask: Ask) -> Ask:
    return replace(ask, history="0" * 64) if ask.number == 3 else ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (other_theta, "theta"),
        (other_totals, "totals"),
        (other_encoder, "scalings"),
        (other_history, "history"),
    ],
)
def test_a_question_that_does_not_follow_is_not_signed(
    change: Any, differs: str, town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying(change, monkeypatch)
    with pytest.raises(FairSiloError, match=rf"is not the one that follows .*\({differs}"):
        train(town, TownTransport(town), tmp_path / "journal")


def test_a_made_up_sum_is_noticed(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server steers the solver by a sum of its own, which no signed answers give."""
    honest = witnesses.Witnesses.tell

    def tell(self: Any, number: int, told: Record) -> None:
        key = next(key for key in told if "vector " in key)
        words = np.frombuffer(told[key], "<u8").copy()
        words[0] += np.uint64(1 << 40)
        honest(self, number, {**told, key: words.tobytes()})

    monkeypatch.setattr(witnesses.Witnesses, "tell", tell)
    with pytest.raises(FairSiloError, match="what came of question 1 does not fit: Only 0 silos"):
        train(town, TownTransport(town), tmp_path / "journal")


@pytest.mark.slow
def test_another_processor_computes_another_theta_and_the_witness_signs(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums from which the witness steps are off by more than rounding errors of the steps."""
    from fairsilo.network import replay

    honest = replay.Replay.collect
    rng = np.random.default_rng(0)
    asked: list[int] = []

    def collect(self: Any, ask: Ask, *given: Any) -> Any:
        found = honest(self, ask, *given)
        if ask.kind != "round":
            return found
        asked.append(ask.number)
        noise = 1 + 1e-14 * rng.normal(size=found.vector.shape)
        return replace(found, vector=found.vector * noise)

    monkeypatch.setattr(replay.Replay, "collect", collect)
    monkeypatch.setattr("fairsilo.network.follows.IGNORED", ("question", "signatures", "history"))
    train(town, TownTransport(town), tmp_path / "journal")
    assert len(asked) > 3


@pytest.mark.slow
def test_a_witness_that_was_started_anew_goes_on(town: Town, tmp_path: Path) -> None:
    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name == "witness0" and exchange % 3 == 0:
            for case in witness._CASES.values():
                case.replay.end()
            witness._CASES.clear()
        return None

    run, _ = train(town, TownTransport(town, change), tmp_path / "journal")
    same, _ = train(town, TownTransport(town, run="2"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


@pytest.mark.slow
@pytest.mark.parametrize("lost_sum", [False, True])
def test_an_interrupted_training_goes_on_under_its_witness(
    lost_sum: bool, town: Town, tmp_path: Path
) -> None:
    """Also where the server lost the last sum, which the witness has."""

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 25:
            raise KeyboardInterrupt
        return None

    with pytest.raises(KeyboardInterrupt):
        train(town, TownTransport(town, change), tmp_path / "journal")
    kept = sorted((tmp_path / "journal").glob("*.safetensors"))
    assert len(kept) > 3
    if lost_sum:
        kept[-1].unlink()
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    same, _ = train(town, TownTransport(town, run="3"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


def test_a_model_of_the_servers_choice_to_start_from_is_refused(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = witnesses.Witnesses.begin

    def begin(self: Any, declared: dict[str, Any], journal: Any) -> None:
        honest(self, {**declared, "start": "abc"}, journal)

    monkeypatch.setattr(witnesses.Witnesses, "begin", begin)
    with pytest.raises(FairSiloError, match="starts where the federation file says"):
        train(town, TownTransport(town), tmp_path / "journal")


@pytest.mark.slow
def test_two_of_three_witnesses_are_enough_and_one_is_not(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", watched=3, quorum=2, rounds=3)
    train(town, TownTransport(town, absent=("witness1",)), tmp_path / "journal")
    witness._CASES.clear()
    few = TownTransport(town, absent=("witness1", "witness2"), run="2")
    with pytest.raises(FairSiloError, match="1 of 2 witnesses signed question 1"):
        train(town, few, tmp_path / "other")


@pytest.mark.parametrize(
    "values",
    [
        {"method": "lco", "rounds": 40},
        pytest.param({"method": "af"}, marks=pytest.mark.long),
        {"target_deo": 0.05},
        {"dp": Privacy(epsilon=8.0), "rounds": 3, "epsilon": 0.1},
    ],
    ids=["lco", "af", "target", "dp"],
)
def test_whatever_is_trained_is_replayed(tmp_path: Path, values: dict[str, Any]) -> None:
    town = make_town(tmp_path / "town", watched=1, **values)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.trained.outcome.rounds >= 1
    assert json.loads(next((town.folder / "witness0").rglob("state.json")).read_text())["signed"]


@pytest.mark.slow
@pytest.mark.parametrize("asked", [False, True], ids=["before", "after"])
def test_lco_goes_on_under_its_witness_as_often_as_it_is_killed(
    asked: bool, tmp_path: Path
) -> None:
    """Before or after the witness signed; silos have forgotten their multipliers each time."""
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
    _, _, engine = train_with(town, TownTransport(town, run="3"), tmp_path / "journal", resume=True)
    assert json.loads(next(town.folder.rglob("state.json")).read_text())["resumed"] == [3, 6]
    assert len(engine.entries) > 12


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


@pytest.mark.parametrize(
    "declared",
    [
        "3",
        '"text"',
        '{"paid": [["a", 1.0, 1000000000], ["a", 1.0, -1000000000]]}',
        '{"paid": [["a", NaN, 1]]}',
        '{"paid": [["a", 0.0, 1]]}',
        '{"paid": [["a", -1.0, 1]]}',
        '{"paid": [["a", 1.0, true]]}',
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declared: str, tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", watched=1, dp=Privacy(epsilon=8.0), rows=80)
    if declared.startswith("{"):
        rest = {"baseline": False, "start": "", "resumed": []}
        declared = json.dumps({**json.loads(declared), **rest})
    record = {"version": 2, "step": "witness", "training": "a", "declared": declared}
    found = reply_to(record, str(town.settings("witness0")), {}, "1")
    assert found["refused"] == "the server did not declare the training"


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
            for case in witness._CASES.values():
                case.replay.end()
            witness._CASES.clear()
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


def test_a_silo_is_no_witness(tmp_path: Path) -> None:
    """Whoever contributes a vector sees no totals."""
    town = make_town(tmp_path / "town")
    both = replace_member(town.agreed)
    with pytest.raises(ValueError, match="or a silo and a witness"):
        FederationFile.model_validate(both)


def replace_member(agreed: FederationFile) -> dict[str, Any]:
    content = agreed.model_dump()
    return {**content, "witnesses": [{**content["silos"][0], "name": "auditor"}]}


def test_a_file_without_witnesses_has_the_text_of_earlier_versions(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    assert "witness" not in town.agreed.text


@pytest.mark.slow
def test_no_silo_is_shown_a_sum(town: Town, tmp_path: Path) -> None:
    """A silo that saw totals could steer theta by lying a little, and read another's row."""
    letters: list[Record] = []

    class Post(TownTransport):
        def exchange(self, told: Any, timeout: float) -> Any:
            letters.extend(one for name, one in told.items() if name.startswith("silo"))
            return super().exchange(told, timeout)

    _, _, engine = train_with(town, Post(town), tmp_path / "journal")
    seen = b"".join(value for one in letters for value in one.values() if isinstance(value, bytes))
    rounds = [entry.vector for entry in engine.entries if entry.kind == "round"]
    assert len(rounds) > 3
    for vector in rounds:
        assert vector is not None
        told = [number for number in vector[vector != 0] if number.tobytes() in seen]
        assert not told


def test_a_theta_that_only_rows_of_unknown_values_see_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a category has no column for other values, such rows have none at all."""
    town = make_town(tmp_path / "town", watched=1, others=False, rounds=4)

    def change(ask: Ask) -> Ask:
        theta = getattr(ask.question, "theta", np.zeros(0)).copy()
        if not theta.any():
            return ask
        names = encoder_of(town.agreed.table, ask.scalings).feature_names
        hot = 1 + np.flatnonzero([name.startswith("c0") for name in names])
        assert len(hot) > 1
        theta[0] += 0.5
        theta[hot] -= 0.5
        return replace(ask, question=replace(ask.question, theta=theta))  # type: ignore[call-arg]

    lying(change, monkeypatch)
    with pytest.raises(FairSiloError, match=r"is not the one that follows .*\(theta"):
        train(town, TownTransport(town), tmp_path / "journal")


@pytest.mark.slow
def test_a_training_goes_on_when_a_witness_that_was_away_is_back(
    town: Town, tmp_path: Path
) -> None:
    """It was not told the last sum, which is asked for again."""

    class Away(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            if self.traffic.exchanges > 18 and "witness0" in letters:
                return {"witness0": Fault("is not connected", gone=True)}
            return super().exchange(letters, timeout)

    with pytest.raises(FairSiloError, match="use `resume` when they are back"):
        train(town, Away(town), tmp_path / "journal")
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    same, _ = train(town, TownTransport(town, run="3"), tmp_path / "other")
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)


@pytest.mark.slow
def test_what_was_signed_stays_signed(town: Town, tmp_path: Path) -> None:
    """A server that goes back, run by run, gets no other question signed in its place."""

    def stop(at: int) -> Any:
        def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
            if exchange == at:
                raise KeyboardInterrupt
            return None

        return change

    with pytest.raises(KeyboardInterrupt):
        train(town, TownTransport(town, stop(25)), tmp_path / "journal")
    for number in range(3):
        max((tmp_path / "journal").glob("*.safetensors")).unlink()
        post = TownTransport(town, stop(2), run=f"back {number}")
        with pytest.raises(KeyboardInterrupt):
            train(town, post, tmp_path / "journal", resume=True)
    (state,) = (
        path
        for path in (town.folder / "witness0" / "witnessed").glob("*/state.json")
        if json.loads(path.read_text())["run"] == "back 2"
    )
    kept = len(list((state.parent / "journal").glob("*.safetensors")))
    assert len(json.loads(state.read_text())["signed"]) > kept + 2


def test_a_number_where_bytes_belong_is_refused(town: Town, tmp_path: Path) -> None:
    """`bytes` of it would fill the memory with zeros."""
    for step in ("share", "masked"):
        record = {"version": 2, "step": step, "parcels": 2**37, "round": 0}
        assert reply_to(record, str(town.settings("silo0")), {}, "1")["refused"]
    whole = {"version": 2, "step": "masked", "parcels": b"{}", "round": 0.0}
    assert reply_to(whole, str(town.settings("silo0")), {}, "1")["refused"]
