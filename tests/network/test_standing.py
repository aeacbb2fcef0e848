"""What `status` and the live page say of a run that waits: whose turn it is, and for how long."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairsilo.network.aggregate import Patience
from fairsilo.network.server import about, aggregate_for
from fairsilo.network.transport import Fault, Patient
from fairsilo.network.wire import Record
from fairsilo.progress import PROGRESS, Progress, advance, standing, until
from fairsilo.report.live import watching
from fairsilo.report.live.page import parts
from tests.network.silos import Town, TownTransport, make_town
from tests.network.test_approval import SILO, forget, say
from tests.network.test_silo import ask_of, scalings_of

GONE = "silo1"
WAITS, AWAY, IDLE, BUSY = "waits for its owner", "missing", "idle", "answering"


class Seen(TownTransport):
    """Looks, whenever silos are asked, at what is said that they are doing."""

    state: dict[str, Any]
    asked: list[dict[str, str]]

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        self.asked.append({name: self.state["silos"][name]["state"] for name in letters})
        return super().exchange(letters, timeout)


def ask(town: Town, post: Seen, sleep: Callable[[float], None]) -> list[tuple[str, list[str]]]:
    """One question, told as the engine tells it; after every event what each silo is doing."""
    post.state, post.asked = standing(()), []
    seen = list[tuple[str, list[str]]]()

    def told(event: dict[str, Any]) -> None:
        advance(post.state, {"time": 1.0, **event})
        seen.append((event["event"], [one["state"] for one in post.state["silos"].values()]))

    silos = town.agreed.names
    told({"event": "started", "silos": silos, "about": about(town.agreed, False)})
    told({"event": "asking", "silos": silos, "kind": "counts", "number": 1, "phase": "set-up"})
    patience = Patience(60.0, told, sleep=sleep)
    gather = aggregate_for(town.agreed, Patient(post, told, sleep=sleep), "1", 1.0, patience)
    question = ask_of(town)
    problem = town.agreed.problem(scalings_of(town))
    found = gather.collect(question, silos, question.question.length(problem))
    told({"event": "asked", "silos": found.silos, "phase": "set-up"})
    return seen[2:]


def yes_to(town: Town) -> Callable[[float], None]:
    """While it is waited the owner says yes."""

    def wait(seconds: float) -> None:
        say(town, town.agreed.fingerprint)

    return wait


@pytest.mark.parametrize("secure", [False, True])
def test_who_has_answered_idles_while_an_owner_is_asked(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path, secure_aggregation=secure)
    forget(town)
    post = Seen(town)
    seen = ask(town, post, yes_to(town))
    others = BUSY if secure else IDLE
    assert seen == [
        ("approval", [WAITS, IDLE, IDLE, IDLE]),
        ("approval", [BUSY, others, others, others]),
        ("asked", ["answered"] * 4),
    ]
    # Whoever was asked since was said to be at work.
    assert post.asked[1] == {SILO: WAITS}
    assert all(state == BUSY for asked in post.asked[2:] for state in asked.values())
    assert len(post.asked) == (6 if secure else 2)


@pytest.mark.parametrize("secure", [False, True])
def test_who_has_answered_idles_while_a_silo_is_away(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path, secure_aggregation=secure)
    post = Seen(town)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == (3 if secure else 1) and name == GONE:
            post.absent = (GONE,)
        return Fault("is no longer connected", gone=True) if name in post.absent else None

    post.change = change
    seen = ask(town, post, lambda seconds: setattr(post, "absent", ()))
    others = BUSY if secure else IDLE
    assert seen == [
        ("missing", [IDLE, AWAY, IDLE, IDLE]),
        ("back", [others, BUSY, others, others]),
        ("asked", ["answered"] * 4),
    ]
    back = 4 if secure else 1
    assert len(post.asked) > back
    assert all(state == BUSY for asked in post.asked[back:] for state in asked.values())


def test_who_did_not_answer_in_time_is_not_said_to_idle(tmp_path: Path) -> None:
    """It may still be computing while the owner of another one is asked."""
    town = make_town(tmp_path, secure_aggregation=False)
    forget(town)
    late = Fault("did not answer within 1 s", gone=True)
    post = Seen(
        town, lambda name, exchange, record: late if (name, exchange) == (GONE, 1) else None
    )
    seen = ask(town, post, yes_to(town))
    assert seen[0] == ("approval", [WAITS, BUSY, IDLE, IDLE])


def test_a_witness_that_waits_leaves_all_silos_idle_and_is_not_one_of_them() -> None:
    """Its signature comes before any silo is asked."""
    state = standing(
        {"time": 1.0, **event}
        for event in (
            {
                "event": "started",
                "silos": ["a", "b"],
                "about": {"secure": True, "witnesses": ["w"]},
            },
            {"event": "asking", "silos": ["a", "b"], "kind": "x", "number": 1, "phase": "set-up"},
            {"event": "approval", "silos": ["w"], "busy": []},
        )
    )
    assert parts(state, False, False)["#silos"].count("a witness, who signs") == 1
    assert {name: one["state"] for name, one in state["silos"].items()} == {
        "a": IDLE, "b": IDLE, "w": WAITS,
    }  # fmt: skip
    advance(state, {"event": "approval", "silos": [], "time": 2.0})
    assert [one["state"] for one in state["silos"].values()] == [BUSY, BUSY, "connected"]
    shown = parts(state, False, False)["#silos"]
    assert shown.count("computing") == 4
    assert "idle" not in shown


STARTED = {"event": "submitting", "phase": "start", "time": 100.0}


def test_the_clock_of_a_run_goes_on_while_nothing_happens() -> None:
    state = standing([STARTED, {"event": "waiting", "names": [], "silos": 0, "of": 3,
                                "phase": "connect", "time": 104.0}])  # fmt: skip
    later = until(state, 164.0)
    assert later["phases"] == {"start": 4.0, "connect": 60.0}
    assert later["time"] - later["began"] == 64.0
    # What comes next counts once.
    advance(state, {"event": "finished", "time": 170.0})
    assert state["phases"] == {"start": 4.0, "connect": 66.0}
    assert until(state, 999.0) == state
    assert until(standing(()), 999.0) == standing(())


@pytest.mark.parametrize("dead", [False, True])
def test_the_phases_on_the_page_go_on_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: bool
) -> None:
    monkeypatch.setattr("fairsilo.report.live.serve.TICK", 0.1)
    monkeypatch.setattr("fairsilo.report.live.serve.BEAT", 0.1)
    Progress(tmp_path / PROGRESS).say(STARTED)
    with watching(tmp_path / PROGRESS) as server:
        server.dead = lambda state: dead
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        first = json.loads(answer.readline().removeprefix(b"data: "))
        assert ("Nothing has been measured" in first["#time"]) is dead
        told = answer.readline()
        # Between two parts there is an empty line, or a sign of life.
        while told in (b"\n", b": still here\n") and not (dead and told != b"\n"):
            told = answer.readline()
        connection.close()
    if dead:
        assert told == b": still here\n"
    else:
        later = json.loads(told.removeprefix(b"data: "))
        assert list(later) == ["#time"]
        assert later["#time"] != first["#time"]


def test_a_run_that_was_ended_has_one_note_of_it() -> None:
    """Its server sees silos whose answers do not come any more, and its own end."""
    late = {"event": "missing", "silos": {"a": "did not answer"}, "seconds": 9.0, "time": 100.5}
    stopping = {"event": "stopping", "time": 101.0}
    ended = {"event": "interrupted", "why": "the SuperLink ended the run's process", "time": 102.0}
    stopped = {"event": "stopped", "why": "interrupted by its operator", "time": 103.0}
    state = standing([STARTED, stopping, late, ended, stopped])
    assert [note["text"] for note in state["notes"]] == ["interrupted by its operator"]
    assert (state["end"]["how"], state["why"]) == ("stopped", "interrupted by its operator")
    # What came before has its notes, and what comes after.
    again = {"event": "submitting", "resume": True, "phase": "start", "time": 104.0}
    events = [STARTED, late, ended, stopping, ended, stopped, again, late]
    assert len(standing(events)["notes"]) == 4
