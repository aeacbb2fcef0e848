"""The message layer, the post over a faulty grid, the journal's files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.audit_columns import Answers
from fairsilo.network.client import settings_of
from fairsilo.network.journal import Entry, Journal
from fairsilo.network.transport import LARGEST, Fault, GridTransport, need
from fairsilo.network.wire import RECORD, Ask, Reply, checked, pack, unpack
from fairsilo.question import QUESTIONS, Counts, Evaluate, Question, Round

floats = arrays(np.float64, st.integers(0, 9), elements=st.floats(allow_nan=False))


@given(floats)
def test_vectors_survive_the_wire_to_the_last_bit(values: np.ndarray) -> None:
    np.testing.assert_array_equal(unpack(pack(values)), values)


@given(theta=floats, mu=floats, number=st.integers(0, 10**6))
def test_questions_survive_the_wire(theta: np.ndarray, mu: np.ndarray, number: int) -> None:
    question = Round(theta, mu, "first", np.arange(3.0), rest=True, limited=False)
    ask = Ask(question, number, "f" * 64, "fedfair", True, mu, theta, "aa", "bb", b"cc")
    back = Ask.from_record(ask.to_record())
    asked = back.question
    assert isinstance(asked, Round)
    assert (back.kind, back.number, back.fingerprint) == ("round", number, "f" * 64)
    assert (back.purpose, back.encoded) == ("fedfair", True)
    assert (back.training, back.history, back.signatures) == ("aa", "bb", b"cc")
    np.testing.assert_array_equal(back.scalings, mu)
    np.testing.assert_array_equal(back.cells, theta)
    assert (asked.order, asked.rest, asked.limited) == ("first", True, False)
    np.testing.assert_array_equal(asked.theta, theta)
    np.testing.assert_array_equal(asked.mu, mu)
    np.testing.assert_array_equal(asked.totals, np.arange(3.0))
    assert back.digest() == ask.digest()


KINDS = (
    "columns", "counts", "round", "local", "spread", "attack", "evaluate", "separate",
    "repair", "answers", "noisy-columns", "noisy-counts", "cells", "outcomes",
    "histogram", "crossings", "noisy-histogram",
)  # fmt: skip
NUMBERS: dict[Any, Any] = {float: 0.5, int: 3, str: "eo", bool: True, Floats: np.arange(4.0)}


def test_there_are_no_other_kinds_of_questions() -> None:
    ours = {kind for kind, one in QUESTIONS.items() if one.__module__.startswith("fairsilo.")}
    assert ours == set(KINDS)
    assert QUESTIONS["answers"] is Answers


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_question_survives_the_wire(kind: str) -> None:
    """Through Flower's own record, which takes few types."""
    made = QUESTIONS[kind]
    types = get_type_hints(made)
    question = made(**{one.name: NUMBERS[types[one.name]] for one in fields(made)})
    record = Ask(question, 1, "f", "fedfair").to_record()
    back = Ask.from_record(dict(ConfigRecord(record))).question
    assert type(back) is made
    for one in fields(made):
        np.testing.assert_array_equal(getattr(back, one.name), getattr(question, one.name))
    other = replace(question, **{one.name: _other(question, one.name) for one in fields(made)})
    assert (
        not fields(made)
        or Ask(other, 1, "f", "fedfair").digest() != Ask(question, 1, "f", "fedfair").digest()
    )


def _other(question: Question, name: str) -> Any:
    value = getattr(question, name)
    return value + "x" if isinstance(value, str) else value * 0


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"version": 3},
        {"kind": "rows"},
        {"kind": "counts"},
        {"number": "1"},
        {"number": True},
        {"question.theta": "text"},
        {"question.theta": b"1234567"},
        {"question.test_only": 1},
        {"scalings": "text"},
        {"more": 1},
        {"question.more": 1},
        {"kind": None},
    ],
)
def test_a_damaged_question_is_refused(change: dict[str, Any]) -> None:
    record = {**Ask(Evaluate(np.zeros(2)), 1, "f", "fedfair").to_record(), **change}
    with pytest.raises(FairSiloError):
        Ask.from_record(record)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(1, "counts", np.ones(3)), None),
        (Reply(2, "counts", np.ones(3)), "answered question 2"),
        (Reply(1, "round", np.ones(3)), "answered question 1 .round."),
        (Reply(1, "counts", np.ones(4)), "sent 4 numbers instead of 3"),
        (Reply(1, "counts", np.array([1, np.nan, 2])), "not finite"),
        (Reply(1, "counts", np.array([1, np.inf, 2])), "not finite"),
        (Reply(1, "counts", refused="no"), "refused: no"),
    ],
)
def test_an_answer_must_fit_its_question(reply: Reply, told: str | None) -> None:
    reply = Reply.from_record(reply.to_record())
    ask = Ask(Counts(), 1, "f", "fedfair")
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
    grid = Grid(
        {1: {"vector": b"12345678"}, 2: 5, 3: "silent", 4: "unsent", 5: "text", 6: 99, 8: 7}
    )
    post = GridTransport(grid, lambda n: f"s{n.node_id}", lambda: next(clock), lambda seconds: None)
    assert post.present() == ("s1", "s2", "s3", "s4", "s5", "s6", "s8")
    letters: dict[str, Any] = {f"s{n}": {"kind": "x"} for n in range(1, 9)}
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
        # Only where a silo refuses an app, its reason is a sentence of fairsilo's.
        "s8": "refused: a secret",
    }
    assert post.traffic.up == 8
    assert post.traffic.exchanges == 1


@pytest.mark.usefixtures("_in_a_run")
@pytest.mark.parametrize("simulated", [False, True])
def test_only_simulated_nodes_are_told_whom_they_play(simulated: bool) -> None:
    grid = Grid({7: {"vector": b""}, 9: {"vector": b""}})
    post = GridTransport(grid, lambda n: f"s{n.node_id}", sleep=lambda _: None, simulated=simulated)
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
    monkeypatch.setattr("fairsilo.network.transport.LARGEST", 100)
    grid = Grid({1: {"vector": bytes(200)}})
    post = GridTransport(grid, lambda n: "s1", sleep=lambda seconds: None)
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
    journal.append(Entry("columns", 1, ("a", "b"), 0.5, vector=vector))
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


def test_the_journal_of_an_older_version_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j", "f", resume=False).append(Entry("columns", 1, ("a",), 0.5))
    head = tmp_path / "j" / "head.json"
    assert '"version": 2' in head.read_text()
    head.write_text(head.read_text().replace('"version": 2', '"version": 1'))
    with pytest.raises(FairSiloError, match="left by another version of fairsilo: run without"):
        Journal(tmp_path / "j", "f", resume=True)
