"""A run waits until the silo's owner said yes; the server is told to wait, and nothing leaves."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.errors import FairSiloError
from fairsilo.network import approval, left
from fairsilo.network.approval import REFUSED, WAITS, decide
from fairsilo.network.client import UNSAID, reply_to
from fairsilo.network.federation_file import FILE
from fairsilo.network.ops.silo_health import SiloHealth
from fairsilo.network.settings import read_settings
from fairsilo.network.transport import APPROVAL, Patient
from fairsilo.network.vouch import confirm_all
from fairsilo.network.wire import Record
from fairsilo.progress import words
from tests.network.silos import Town, TownTransport, largest_gap, make_town, train, train_with
from tests.network.test_silo import ask_of, set_line

runner = CliRunner()
SILO = "silo0"


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path, secure_aggregation=False)


def forget(town: Town) -> None:
    """As a silo is before its owner looked at the federation file; the other silos are known."""
    settings = read_settings(town.settings(SILO))
    settings.approvals.unlink()
    confirm_all(settings, town.agreed)


def say(town: Town, name: str, yes: bool = True) -> list[str]:
    return decide(read_settings(town.settings(SILO)), town.agreed, name, yes)


def asked(town: Town, run: str = "1", **values: Any) -> Record:
    return reply_to(ask_of(town, **values).to_record(), str(town.settings(SILO)), {}, run)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_the_server_waits_for_the_owner_and_the_model_is_the_same(
    tmp_path: Path, secure: bool
) -> None:
    town = make_town(tmp_path, silos=3, rows=600, secure_aggregation=secure)
    before, _ = train(town, TownTransport(town), tmp_path / "before")
    forget(town)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            say(town, town.agreed.fingerprint)

    post = TownTransport(town, run="2")
    run, events, _ = train_with(town, post, tmp_path / "journal", sleep=sleep)
    told = [event["silos"] for event in events if event["event"] == "approval"]
    assert told == [[SILO], []]
    assert words({"event": "approval", "silos": [SILO]}) == (
        "silo silo0 is waiting for its owner's approval"
    )
    assert len(pauses) == 2
    assert largest_gap(town, run, before) < 1e-12
    assert not run.metrics["notes"]
    # While it waited nothing of the silo left but that it waits.
    waited = [record for name, record in post.seen if name == SILO and record.get("waiting")]
    assert len(waited) == 2
    assert {record["refused"] for record in waited} == {WAITS}
    assert not any(record.get("vector") or record.get("content") for record in waited)


def test_listed_is_once_for_a_federation_file_and_until_it_changes(town: Town) -> None:
    assert not asked(town)["refused"]
    assert not asked(town, run="2")["refused"]
    changed = town.agreed.model_copy(update={"epsilon": 0.5})
    (town.folder / SILO / FILE).write_text(changed.text)
    # The attack: coordinator and silo's folder have a looser limit that the owner never saw.
    reply = asked(town, fingerprint=changed.fingerprint)
    assert reply["waiting"]
    assert reply["vector"] == b""
    set_line(town, 'approve = "always"')
    assert not asked(town, fingerprint=changed.fingerprint)["refused"]


def test_ask_is_for_every_run_anew(town: Town) -> None:
    set_line(town, 'approve = "ask"')
    assert asked(town, run="11111111")["waiting"]
    assert asked(town, run="22222222")["waiting"]
    assert say(town, "11111111") == [f"{town.agreed.fingerprint} 11111111"]
    assert not asked(town, run="11111111")["refused"]
    assert asked(town, run="22222222")["waiting"]
    # The federation file names no run: others may have come since its owner looked.
    with pytest.raises(FairSiloError, match="give the number of a run"):
        say(town, town.agreed.fingerprint[:8])
    assert asked(town, run="22222222")["waiting"]
    where = ["approve", "--settings", str(town.settings(SILO))]
    assert "fairsilo flower approve 22222222" in runner.invoke(app, where).output


def test_a_no_is_a_refusal_and_takes_a_yes_back(town: Town) -> None:
    assert not asked(town)["refused"]
    say(town, town.agreed.fingerprint, yes=False)
    reply = asked(town)
    assert reply["refused"] == REFUSED
    assert "waiting" not in reply


def test_a_run_that_was_approved_to_audit_does_not_train(town: Town) -> None:
    memory: dict[str, Any] = {"purpose": "audit"}
    reply = reply_to(ask_of(town).to_record(), str(town.settings(SILO)), memory, "1")
    assert "a run either trains or audits" in reply["refused"]


def test_a_run_stays_what_its_owner_was_asked_for(town: Town) -> None:
    """The owner sees a training and says yes; the server goes on with an audit."""
    set_line(town, 'approve = "ask"')
    memory: dict[str, Any] = {}
    where = str(town.settings(SILO))
    assert reply_to(ask_of(town).to_record(), where, memory, "1")["waiting"]
    say(town, "1")
    told = reply_to(ask_of(town, purpose="audit").to_record(), where, memory, "1")
    assert "a run either trains or audits" in told["refused"]
    assert not reply_to(ask_of(town).to_record(), where, memory, "1")["refused"]


@pytest.mark.parametrize("guarded", [False, True])
def test_a_yes_to_a_run_is_no_yes_to_another_of_its_number(
    town: Town, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silo's program was started anew and knows nothing of the run; the server numbers runs."""
    if not guarded:
        monkeypatch.setattr(approval, "_hold_to", lambda *given: None)
    set_line(town, 'approve = "ask"')
    assert asked(town, training="one")["waiting"]
    say(town, "1")
    assert not asked(town, training="one")["refused"]
    told = asked(town, training="two")["refused"]
    assert ("that was another one" in told) is guarded
    assert bool(told) is guarded
    audit = asked(town, purpose="audit", training="")["refused"]
    assert ("that was another one" in audit) is guarded
    assert not asked(town, training="one")["refused"]


def test_the_server_does_not_write_on_the_owners_screen(town: Town) -> None:
    set_line(town, 'approve = "ask"')
    for purpose in ("fedfair\n\x1b[2Japproved", "x" * 10_000):
        told = asked(town, purpose=purpose)["refused"]
        assert "does not name the method" in told
        assert told.isprintable()
        assert len(told) < 200
    assert not approval.read(read_settings(town.settings(SILO)))["waiting"]
    both = ask_of(town).to_record() | {"ask.purpose": "audit"}
    told = reply_to(both, str(town.settings(SILO)), {}, "1")["refused"]
    assert "a run either trains or audits" in told


def test_waiting_has_an_end_and_then_it_is_a_refusal(town: Town) -> None:
    forget(town)
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += APPROVAL / 2

    events: list[dict[str, Any]] = []
    post = Patient(TownTransport(town), events.append, lambda: now, sleep)
    found = post.exchange({SILO: ask_of(town).to_record()}, 1.0)[SILO]
    assert isinstance(found, dict)
    assert found["refused"] == WAITS
    assert [event["silos"] for event in events] == [[SILO]]


def test_the_file_is_its_owners_alone_and_never_taken_for_empty(town: Town) -> None:
    forget(town)
    asked(town)
    settings = read_settings(town.settings(SILO))
    assert settings.approvals.stat().st_mode & 0o777 == 0o600
    settings.approvals.write_text("{")
    assert asked(town)["refused"] == UNSAID
    with pytest.raises(FairSiloError, match="damaged"):
        approval.read(settings)


def test_runs_that_wait_cannot_fill_the_disk(town: Town) -> None:
    set_line(town, 'approve = "ask"')
    for run in range(approval.MOST + 5):
        asked(town, run=str(run))
    waiting = approval.read(read_settings(town.settings(SILO)))["waiting"]
    assert len(waiting) == approval.MOST
    assert f"{town.agreed.fingerprint} {approval.MOST + 4}" in waiting


@pytest.mark.parametrize("name", ["1", "0" * 64, "zzzzzzzz"])
def test_what_is_approved_must_be_named(town: Town, name: str) -> None:
    with pytest.raises(FairSiloError, match="neither a waiting run nor the federation file"):
        say(town, name)


def test_the_owner_sees_who_asks_what_before_a_yes(town: Town) -> None:
    forget(town)
    asked(town, run="77777777")
    where = ["approve", "--settings", str(town.settings(SILO))]
    told = runner.invoke(app, where).output
    for part in (
        "federation federation at", "silo0, silo1, silo2, silo3", "fedfair, lr", "epsilon 0.02",
        "NO secure aggregation", "no differential privacy", "columns, counts, evaluate, round",
        f"at most {town.agreed.questions} in a run", "run 77777777 since", "for fedfair",
        "owner said   nothing yet",
        f"fairsilo flower approve {town.agreed.fingerprint[:16]}",
    ):  # fmt: skip
        assert part in told
    found = json.loads(runner.invoke(app, [*where, "--json"]).output)
    assert found["confirmed"] is None
    assert found["waiting"][0]["run"] == "77777777"
    assert len(found["code"]) == 64
    done = runner.invoke(app, [*where, town.agreed.fingerprint[:16]])
    yes = f"all runs of federation file {town.agreed.fingerprint[:16]}, until it changes\n"
    assert done.output == f"yes to {yes}"
    assert not asked(town, run="77777777")["refused"]
    done = runner.invoke(app, [*where, town.agreed.fingerprint[:16], "--refuse"])
    assert done.output == f"no to {yes}"
    assert asked(town, run="77777777")["refused"] == REFUSED


def test_a_yes_to_the_whole_file_does_not_look_like_one_to_a_run(town: Town) -> None:
    """A run waits from the time when every run was asked for."""
    set_line(town, 'approve = "ask"')
    asked(town, run="95501234")
    settings = town.settings(SILO)
    settings.write_text(settings.read_text().replace('approve = "ask"', 'approve = "listed"'))
    whole, found = town.agreed.fingerprint[:16], ["approve", "--settings", str(settings)]
    assert runner.invoke(app, [*found, "95501234"]).output == "yes to run 95501234\n"
    asked(town, run="95501234")
    settings.write_text(settings.read_text().replace('approve = "listed"', 'approve = "ask"'))
    asked(town, run="95505678")
    settings.write_text(settings.read_text().replace('approve = "ask"', 'approve = "listed"'))
    assert runner.invoke(app, [*found, whole]).output == (
        f"yes to all runs of federation file {whole}, until it changes; run 95505678\n"
    )


def at(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """So many seconds from now."""

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=seconds)

    monkeypatch.setattr(approval, "datetime", Later)


def test_a_run_that_asks_no_more_waits_no_more(
    town: Town, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ended, or was started again under another number."""
    set_line(town, 'approve = "ask"')
    settings = read_settings(town.settings(SILO))
    health = SiloHealth(settings, [], tmp_path / "contact")

    def waiting() -> list[str]:
        found = [one["run"] for one in approval.waiting(settings)]
        assert health().facts["waiting_for_approval"] == len(found)
        shown = runner.invoke(app, ["approve", "--settings", str(town.settings(SILO))]).output
        assert [run for run in ("1", "2") if f"run {run}1111111 since" in shown] == [
            run[0] for run in found
        ]
        return found

    asked(town, run="11111111")
    asked(town, run="21111111")
    assert waiting() == ["11111111", "21111111"]
    at(monkeypatch, approval.LATELY - 10)
    # Asked again, it goes on to wait, and is still one line of what left.
    lines = len(left.read(settings.left))
    since = approval.waiting(settings)[1]["since"]
    asked(town, run="21111111")
    assert len(left.read(settings.left)) == lines
    at(monkeypatch, approval.LATELY + 10)
    assert waiting() == ["21111111"]
    assert approval.waiting(settings)[0]["since"] == since
    at(monkeypatch, 3 * approval.LATELY)
    assert waiting() == []
    asked(town, run="11111111")
    assert waiting() == ["11111111"]


def test_a_file_that_waits_names_the_run_that_asks_now(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(town)
    for run in ("1", "2"):
        asked(town, run=run)
        assert [one["run"] for one in approval.waiting(read_settings(town.settings(SILO)))] == [run]


def test_settings_of_before_there_were_approvals_are_listed(town: Town) -> None:
    settings = read_settings(town.settings(SILO))
    assert "approve" not in town.settings(SILO).read_text()
    assert settings.approve == "listed"
    assert settings.approvals == town.settings(SILO).with_name("approvals.json")
