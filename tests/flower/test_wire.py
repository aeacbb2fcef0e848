"""The message layer, the post over a faulty grid, the journal's files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairsilo.errors import FairSiloError
from fairsilo.flower.client import settings_of
from fairsilo.flower.journal import Entry, Journal
from fairsilo.flower.post import LARGEST, Fault, GridPost, need
from fairsilo.flower.wire import RECORD, Ask, Reply, checked, pack, unpack

floats = arrays(np.float64, st.integers(0, 9), elements=st.floats(allow_nan=False))


@given(floats)
def test_vectors_survive_the_wire_to_the_last_bit(values: np.ndarray) -> None:
    np.testing.assert_array_equal(unpack(pack(values)), values)


@given(theta=floats, mu=floats, number=st.integers(0, 10**6))
def test_questions_survive_the_wire(theta: np.ndarray, mu: np.ndarray, number: int) -> None:
    ask = Ask("round", number, "f" * 64, order="first", theta=theta, mu=mu)
    back = Ask.from_record(ask.to_record())
    assert (back.kind, back.number, back.order) == ("round", number, "first")
    np.testing.assert_array_equal(back.theta, theta)
    np.testing.assert_array_equal(back.mu, mu)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "rows"},
        {"number": "1"},
        {"theta": "text"},
        {"theta": b"1234567"},
        {"more": 1},
        {"kind": None},
    ],
)
def test_a_damaged_question_is_refused(change: dict[str, Any]) -> None:
    record = {**Ask("totals", 1, "f").to_record(), **change}
    with pytest.raises(FairSiloError):
        Ask.from_record(record)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(1, "totals", np.ones(3)), None),
        (Reply(2, "totals", np.ones(3)), "answered question 2"),
        (Reply(1, "round", np.ones(3)), "answered question 1 .round."),
        (Reply(1, "totals", np.ones(4)), "sent 4 numbers instead of 3"),
        (Reply(1, "totals", np.array([1, np.nan, 2])), "not finite"),
        (Reply(1, "totals", np.array([1, np.inf, 2])), "not finite"),
        (Reply(1, "totals", refused="no"), "refused: no"),
    ],
)
def test_an_answer_must_fit_its_question(reply: Reply, told: str | None) -> None:
    reply = Reply.from_record(reply.to_record())
    ask = Ask("totals", 1, "f")
    if told is None:
        np.testing.assert_array_equal(checked(reply, ask, 3), np.ones(3))
    else:
        with pytest.raises(FairSiloError, match=told):
            checked(reply, ask, 3)


class Grid:
    """A fake grid with scripted answers and delays."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers
        self.sent: dict[str, int] = {}
        self.groups: list[str] = []

    def get_nodes(self) -> Iterable[Any]:
        return [SimpleNamespace(node_id=node) for node in self.answers]

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            lost = self.answers[node] == "unsent"
            ids.append("" if lost else f"m{node}")
            self.sent[f"m{node}"] = node
            self.groups.append(message.metadata.group_id)
        return ids

    def pull_messages(self, ids: Iterable[str]) -> list[Any]:
        found = []
        for key in ids:
            told = self.answers[self.sent[key]]
            if told in ("silent", "unsent"):
                continue
            records = {RECORD: told} if isinstance(told, dict) else {}
            found.append(
                SimpleNamespace(
                    metadata=SimpleNamespace(reply_to_message_id=key),
                    has_error=lambda told=told: isinstance(told, int),
                    error=SimpleNamespace(code=told, reason="a secret"),
                    content=SimpleNamespace(config_records=records),
                )
            )
        return found


@pytest.fixture
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what Flower sets in the process of a ServerApp."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.usefixtures("_in_a_run")
def test_every_fault_of_a_node_is_a_sentence_and_no_answer_is_mixed_up() -> None:
    clock = iter(range(10**6))
    grid = Grid({1: {"vector": b"12345678"}, 2: 5, 3: "silent", 4: "unsent", 5: "text", 6: 99})
    post = GridPost(grid, lambda n: f"s{n.node_id}", lambda: next(clock), lambda seconds: None)
    assert post.present() == ("s1", "s2", "s3", "s4", "s5", "s6")
    letters: dict[str, Any] = {f"s{n}": {"kind": "x"} for n in range(1, 8)}
    found = post.exchange(letters, 5.0)
    assert found["s1"] == {"vector": b"12345678"}
    why = {name: fault.why for name, fault in found.items() if isinstance(fault, Fault)}
    assert why == {
        "s2": "is no longer connected",
        "s3": "did not answer within 5 s",
        "s4": "could not be sent the question",
        "s5": "answered with something else than a record of fairsilo",
        "s6": "failed (Flower 99)",
        "s7": "is not connected",
    }
    assert post.traffic.up == 8
    assert post.traffic.exchanges == 1


@pytest.mark.usefixtures("_in_a_run")
@pytest.mark.parametrize("simulated", [False, True])
def test_only_simulated_nodes_are_told_whom_they_play(simulated: bool) -> None:
    grid = Grid({7: {"vector": b""}, 9: {"vector": b""}})
    post = GridPost(grid, lambda n: f"s{n.node_id}", sleep=lambda _: None, simulated=simulated)
    post.present()
    post.exchange({"s7": {"kind": "x"}, "s9": {"kind": "x"}}, 5.0)
    assert grid.groups == (["s7", "s9"] if simulated else ["", ""])


def test_the_servers_configuration_names_no_settings_of_a_real_node() -> None:
    def path(node: dict[str, Any], run: dict[str, Any]) -> object:
        message = SimpleNamespace(metadata=SimpleNamespace(group_id="bank"))
        context = SimpleNamespace(node_config=node, run_config=run)
        return settings_of(message, context)  # type: ignore[arg-type]

    asked = {"simulation": "/silos"}
    assert path({"silo": "own.toml"}, asked) == "own.toml"
    assert path({"silo": "own.toml", "partition-id": 0}, asked) == "own.toml"
    assert path({}, asked) is None
    assert path({"partition-id": 0}, {"simulation": ""}) is None
    assert path({"partition-id": 0}, asked) == "/silos/bank/silo.toml"


@pytest.mark.usefixtures("_in_a_run")
def test_an_oversized_answer_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairsilo.flower.post.LARGEST", 100)
    grid = Grid({1: {"vector": bytes(200)}})
    post = GridPost(grid, lambda n: "s1", sleep=lambda seconds: None)
    post.present()
    found = post.exchange({"s1": {"kind": "x"}}, 5.0)["s1"]
    assert isinstance(found, Fault)
    assert "at most 100" in found.why
    assert LARGEST > 10**8


def test_too_few_silos_are_named() -> None:
    need(["a", "b"], 2, {})
    with pytest.raises(FairSiloError, match=r"1 of at least 2 silos are left \(b is gone\)"):
        need(["a"], 2, {"b": Fault("is gone")})


def test_the_journal_reads_back_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", "f", resume=False)
    vector = np.random.default_rng(0).normal(size=7)
    journal.append(Entry("encoder", 1, ("a", "b"), 0.5, vector=vector))
    journal.append(Entry("round", 2, ("a",), 0.5, {"b": "is gone"}))
    again = Journal(tmp_path / "j", "f", resume=True)
    first, second, third = again.replay(), again.replay(), again.replay()
    assert first is not None
    assert second is not None
    assert third is None
    assert first.vector is not None
    np.testing.assert_array_equal(first.vector, vector)
    assert first.silos == ("a", "b")
    assert second.vector is None
    assert second.lost == {"b": "is gone"}
    assert again.training == journal.training
    # A run that is not resumed begins an empty journal, under another name.
    assert Journal(tmp_path / "j", "f", resume=False).training != journal.training
    assert [path.name for path in tmp_path.glob("j/*")] == ["head.json"]
    with pytest.raises(FairSiloError, match="nothing to resume"):
        Journal(tmp_path / "j", "f", resume=True)
