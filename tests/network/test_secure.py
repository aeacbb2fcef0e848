"""Secure aggregation through the real handlers: drop-outs, leaks, what the server sees."""

from __future__ import annotations

import contextlib
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.approval import decide
from fairsilo.network.client import reply_to
from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import FederationFile, read_federation_file
from fairsilo.network.masked import letter
from fairsilo.network.ops.check import check_table
from fairsilo.network.settings import Settings, read_settings
from fairsilo.network.silo import answer
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Memory, Record
from fairsilo.question import Columns, Counts, Evaluate, Round
from fairsilo.solver import Status
from tests.network.silos import TownTransport, largest_gap, make_town, simulate, train, train_with

# Exchanges of a run: 1 advertise, 2 share, 3-4 columns, 5-6 counts, then two for every round.
MASKED, CONFIRM, REVEAL = 9, 10, 11
"""The exchanges of the third question."""
COUNTED = 4
"""The signatures under the first sum, which counts rows."""


def dead_from(first: int, name: str = "silo1") -> object:
    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is no longer connected") if silo == name and exchange >= first else None

    return change


@pytest.mark.slow
def test_one_silo_lost_stops_the_run_and_it_can_be_resumed_when_the_silo_is_back(
    tmp_path: Path,
) -> None:
    town = make_town(tmp_path / "town")
    with pytest.raises(FairSiloError, match="silo1 is no longer connected, and counting rows"):
        train(town, TownTransport(town, dead_from(MASKED)), tmp_path / "journal")  # type: ignore[arg-type]
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    assert len(run.client_names) == 4
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6


@pytest.mark.slow
def test_with_recount_the_run_goes_on_without_the_lost_silo(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", recount=True)
    post = TownTransport(town, dead_from(MASKED))  # type: ignore[arg-type]
    run, _ = train(town, post, tmp_path / "journal")
    assert run.client_names == ("silo0", "silo2", "silo3")
    assert run.trained.outcome.status is Status.CONVERGED
    assert "silo1 is no longer connected" in run.metrics["notes"][0]
    assert largest_gap(town, run, simulate(town, tmp_path, without=("silo1",))) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("at", [COUNTED, MASKED, CONFIRM])
def test_two_silos_lost_are_counted_out_without_recount(tmp_path: Path, at: int) -> None:
    """With 8 silos and t = 6, the loss of two reveals neither one's counts.

    Also of two that had answered and were lost before they signed: no sum has them in it.
    """
    town = make_town(tmp_path / "town", silos=8, rows=1600)

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        gone = silo in ("silo1", "silo6") and exchange >= at
        return Fault("is no longer connected") if gone else None

    run, _ = train(town, TownTransport(town, change), tmp_path / "journal")
    assert len(run.client_names) == 6
    other = simulate(town, tmp_path, without=("silo1", "silo6"))
    assert largest_gap(town, run, other) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("silent", [CONFIRM, REVEAL])
def test_a_silo_silent_after_masking_is_in_the_sum(tmp_path: Path, silent: int) -> None:
    """It is asked for its signature again. Its shares may miss: the others' suffice."""
    town = make_town(tmp_path / "town")

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        return (
            Fault("did not answer within 1 s") if silo == "silo2" and exchange == silent else None
        )

    run, _ = train(town, TownTransport(town, change), tmp_path / "journal")
    assert len(run.client_names) == 4
    assert not run.metrics["notes"]
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6


@pytest.mark.slow
def test_a_silo_that_missed_one_exchange_is_asked_again(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        return (
            Fault("did not answer within 1 s") if silo == "silo2" and exchange == MASKED else None
        )

    run, _ = train(town, TownTransport(town, change), tmp_path / "journal")
    assert len(run.client_names) == 4
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("exchange_lost", [1, 2, 3, COUNTED, 5, 7])
def test_a_silo_dead_before_any_step_never_gives_a_wrong_sum(
    tmp_path: Path, exchange_lost: int
) -> None:
    town = make_town(tmp_path / "town", recount=True)
    post = TownTransport(town, dead_from(exchange_lost))  # type: ignore[arg-type]
    run, _ = train(town, post, tmp_path / "journal")
    other = simulate(town, tmp_path, without=("silo1",))
    assert largest_gap(town, run, other) < 1e-5
    assert run.metrics["train"]["rows"] == other.metrics["train"]["rows"]


def test_fewer_than_the_threshold_is_one_sentence(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    post = TownTransport(town, absent=("silo1", "silo2"))
    with pytest.raises(FairSiloError, match="2 silos sent keys and 3 are needed"):
        train(town, post, tmp_path / "journal")


@pytest.mark.slow
def test_nothing_the_server_received_holds_a_value_of_a_silos_vector(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    post = TownTransport(town)
    run, _, engine = train_with(town, post, tmp_path / "journal")
    received = b"".join(
        value for _, record in post.seen for value in record.values() if isinstance(value, bytes)
    )
    theta = np.zeros(run.trained.outcome.theta.size)
    scalings = scalings_of(run.prepared.encoder)
    about = (town.agreed.fingerprint, "fedfair")
    (counted,) = (entry.vector for entry in engine.entries if entry.kind == "counts")
    assert counted is not None
    asked = [Ask(Columns(), 1, *about, training="one")]
    asked += [
        Ask(question, 2 + k, *about, encoded=True, scalings=scalings, training="one")
        for k, question in enumerate(
            [
                Counts(),
                Round(theta, np.zeros(1), "second", counted),
                Evaluate(run.trained.outcome.theta),
            ]
        )
    ]
    looked_for = 0
    for name in town.agreed.names:
        settings = read_settings(town.settings(name))
        agreed = read_federation_file(settings.federation)
        for ask in asked:
            for value in answer(settings, agreed, ask, {}):
                # Small counts would be found anywhere by chance.
                if value >= 10 or value % 1:
                    looked_for += 1
                    assert np.float64(value).tobytes() not in received
                    assert repr(float(value)).encode() not in received
    assert looked_for > 100


@pytest.mark.slow
def test_the_sums_on_the_wire_look_random(tmp_path: Path) -> None:
    """Bits of masked words are like fair coins; those of plain float64 sums are not."""
    town = make_town(tmp_path / "town")
    post = TownTransport(town)
    train(town, post, tmp_path / "journal")
    words = [r["content"] for _, r in post.seen if r.get("step") == "masked"]
    bits = np.unpackbits(np.frombuffer(b"".join(words), np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


def test_a_secure_silo_answers_no_plain_question(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    ask = Ask(Columns(), 1, town.agreed.fingerprint, "fedfair").to_record()
    reply = reply_to(ask, str(town.settings("silo0")), {}, "1")
    assert "demands secure aggregation" in reply["refused"]
    assert reply["vector"] == b""


@pytest.mark.slow
def test_a_second_survivor_list_is_refused(tmp_path: Path) -> None:
    """Two lists in one round would reveal both seed and key of a silo, and so its vector."""
    town = make_town(tmp_path / "town", rounds=1)
    refusals: list[str] = []

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 11 and silo == "silo0":
            for others in (["silo0", "silo1", "silo2"], ["silo0", "silo1", "silo2", "silo3"]):
                answers = dict.fromkeys(others, bytes(32))
                again = letter("reveal", round=2, answers=answers, parcels={})
                memory = post.memories["silo0"]
                reply = reply_to(again, str(town.settings("silo0")), memory, "1")
                assert reply["content"] == b""
                refusals.append(reply["refused"])
        return None

    post = TownTransport(town, change)
    train(town, post, tmp_path / "journal")
    assert len(refusals) == 2
    assert all("has already answered a survivor list" in text for text in refusals)


def test_a_question_that_fails_does_not_change_what_an_open_round_is_guarded_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused counts over three silos stay closed after a later query for a model failed."""
    town = make_town(tmp_path / "town", rounds=1)
    train(town, TownTransport(town), tmp_path / "journal")
    told: list[str] = []

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        if record["step"] != "masked" or silo != "silo3":
            return None
        settings, memory = str(town.settings("silo0")), post.memories["silo0"]
        with monkeypatch.context() as patch:
            failed: list[str] = []

            def fail(
                settings: Settings, agreed: FederationFile, ask: Ask, memory: Memory
            ) -> Floats:
                failed.append(ask.kind)
                raise FairSiloError("it fails")

            patch.setattr("fairsilo.network.masked.answer", fail)
            question = Round(np.zeros(10), np.zeros(1), "second", np.ones(6))
            moving = Ask(question, 2, town.agreed.fingerprint, "fedfair").to_record()
            sent = {key: v for key, v in post.last["silo0"].items() if key[:4] != "ask."}
            asked = {**sent, "round": 1, **{f"ask.{key}": v for key, v in moving.items()}}
            assert reply_to(asked, settings, memory, "2")["refused"]
            assert failed == ["round"]
        masked = {name: one["content"] for name, one in [*post.seen, (silo, record)]}
        answers = {name: sha256(masked[name]).digest() for name in ("silo0", "silo2", "silo3")}
        listed = letter("confirm", round=0, answers=answers)
        signed = {
            name: reply_to(listed, str(town.settings(name)), post.memories[name], "2")
            for name in answers
        }
        told.extend(str(one["refused"]) for one in signed.values())
        return None

    post = TownTransport(town, change, absent=("silo1",), run="2")
    with pytest.raises(FairSiloError):
        train(town, post, tmp_path / "journal")
    assert len(told) == 3
    assert all("one silo's share by subtraction" in one for one in told)


@pytest.mark.slow
def test_the_key_must_be_the_one_in_the_federation_file(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    other = (town.folder / "silo0" / "node.key").read_bytes()
    (town.folder / "silo1" / "node.key").write_bytes(other)
    post = TownTransport(town)
    run, events = train(town, post, tmp_path / "journal")
    assert "silo1" not in run.client_names
    assert any("not the one in the federation file" in e.get("why", "") for e in events)


@pytest.mark.slow
def test_signed_survivor_lists(tmp_path: Path) -> None:
    """A silo reveals nothing without the others' signatures on the list that it was given."""
    town = make_town(tmp_path / "town", rounds=2)
    unsigned: list[str] = []

    def change(silo: str, exchange: int, record: Record) -> Record | Fault | None:
        if record.get("step") == "confirm" and silo == "silo3" and not unsigned:
            # A server that omits the signatures, or sends silo0 another list.
            for others in (list(town.agreed.names), ["silo0", "silo1", "silo2"]):
                masked = {name: one for name, one in post.seen if one["step"] == "masked"}
                answers = {name: sha256(masked[name]["content"]).digest() for name in others}
                ask = letter("reveal", round=0, answers=answers, parcels={})
                memory = dict(post.memories["silo0"])
                reply = reply_to(ask, str(town.settings("silo0")), memory, "1")
                assert reply["content"] == b""
                unsigned.append(reply["refused"])
        return None

    post = TownTransport(town, change)
    run, _ = train(town, post, tmp_path / "journal")
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6
    assert len(unsigned) == 2
    assert "Not signed by silo0, silo1, silo2, silo3" in unsigned[0]
    assert "has not signed this survivor list" in unsigned[1]
    steps = [record.get("step") for silo, record in post.seen if silo == "silo1"]
    assert steps.count("confirm") == steps.count("reveal") == steps.count("masked") == 5


@pytest.mark.slow
def test_a_later_run_over_one_silo_less_is_refused(tmp_path: Path) -> None:
    """Counts over four silos minus those over three, from another run, reveal the fourth's."""
    town = make_town(tmp_path / "town", rounds=1)
    train(town, TownTransport(town), tmp_path / "journal")
    fewer = TownTransport(town, absent=("silo1",), run="2")
    with pytest.raises(FairSiloError, match=r"silo0 refused: .* one silo's share by subtraction"):
        train(town, fewer, tmp_path / "journal")
    assert not any(record.get("step") == "reveal" and record["content"] for _, record in fewer.seen)
    train(town, TownTransport(town, run="3"), tmp_path / "journal")
    # Silos are known by their keys: another federation file with other names changes nothing.
    ledger = (town.folder / "silo0" / "ledger.json").read_text()
    assert "silo1" not in ledger
    # Other rows have other counts.
    for name in fewer.present():
        path = town.folder / name / "table.csv"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    train(town, TownTransport(town, absent=("silo1",), run="4"), tmp_path / "journal")


@pytest.mark.slow
def test_with_recount_a_later_run_may_be_over_one_silo_less(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, recount=True)
    train(town, TownTransport(town), tmp_path / "journal")
    run, _ = train(town, TownTransport(town, absent=("silo1",), run="2"), tmp_path / "journal")
    assert len(run.client_names) == 3
    # It is still recorded: a federation file without `recount` would open no other counts.
    shown = json.loads((town.folder / "silo0" / "ledger.json").read_bytes())["shown"]
    assert sorted(len(silos) for sets in shown.values() for silos in sets) == [3, 4]


def test_a_ledger_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1)
    for name in town.agreed.names:
        (town.folder / name / "ledger.json").write_text("?")
    settings = read_settings(town.settings("silo0"))
    assert "ledger.json" in " ".join(check_table(settings, town.agreed).problems)
    with pytest.raises(FairSiloError, match="refused: The saved list of static sums cannot be"):
        train(town, TownTransport(town), tmp_path / "journal")


def test_a_federation_file_that_changed_within_a_run_opens_nothing(tmp_path: Path) -> None:
    """After its vector left: a letter that opens the sum names no file by itself."""
    town = make_town(tmp_path / "town", rounds=1)
    settings = read_settings(town.settings("silo1"))
    post = TownTransport(town)

    def change(name: str, exchange: int, record: Record) -> None:
        if name == "silo1" and record.get("step") == "masked":
            other = town.agreed.model_copy(update={"epsilon": 0.2})
            settings.federation.write_text(other.model_dump_json())
            # Its owner has seen it.
            decide(settings, other, other.fingerprint)

    post.change = change
    with contextlib.suppress(FairSiloError):
        train(town, post, tmp_path / "journal")
    steps = [(one["step"], one["refused"]) for name, one in post.seen if name == "silo1"]
    masked = [step for step, _ in steps].index("masked")
    step, refused = steps[masked + 1]
    assert step != "masked"
    assert "the federation file changed within the run: start another" in refused
