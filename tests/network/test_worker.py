"""The worker against the Runtime API of Flower's real SuperNode, without a SuperLink behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.cli.build import build_fab_from_files
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.start_client_internal import _insert_message

from fairsilo.network import left
from fairsilo.network.ops.bundle import app_files, own_digest
from fairsilo.network.ops.parent import STUCK
from fairsilo.network.ops.processes import free_ports, wait_for_port
from fairsilo.network.ops.runtime import Runtime
from fairsilo.network.ops.worker import NO_QUESTION, serve, work_on
from fairsilo.network.settings import read_settings
from fairsilo.network.wire import RECORD, Ask
from fairsilo.question import Columns
from tests.network.silos import make_town

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
SECRET = b"s" * 32
OWN = {path: text.encode() for path, text in app_files().items()}
ROBBER = {**OWN, "fairsilo_app/client_app.py": b"raise SystemExit('robbed')\n"}


@dataclass
class Node:
    """A SuperNode's memory and its API."""

    state: Any
    port: int
    settings: Path
    question: Ask

    def receive(
        self, files: dict[str, bytes], kind: str = TaskType.CLIENT_APP, *, late: float = 0.0
    ) -> str:
        """What the node does when a message came, with the message `late` after its task."""
        run = Run.create_empty(7)
        fab = build_fab_from_files(files)[0]
        # The run's own word on its app is the right one, whatever the app.
        run.fab_hash = self.state.store_fab(Fab("", fab, {}))
        self.state.store_run(run)
        config: Any = {"silo": str(self.settings)}
        self.state.set_run_series_context(0, Context(7, 1, config, RecordDict(), {}))
        self.state.create_task(kind, 7, run.fab_hash)
        content = RecordDict({RECORD: ConfigRecord(self.question.to_record())})
        message = Message(content, dst_node_id=1, message_type="query")
        message.metadata.__dict__["_run_id"] = 7
        threading.Timer(
            late, _insert_message, (message, self.state, self.state.object_store)
        ).start()
        return str(message.object_id)

    def lose(self) -> None:
        """A message of another run that has ended before its parts came: Flower forgets it so."""
        ended = Run.create_empty(6)
        ended.fab_hash = self.state.store_fab(Fab("", build_fab_from_files(OWN)[0], {}))
        ended.series_id = 6
        self.state.store_run(ended)
        config: Any = {"silo": str(self.settings)}
        self.state.set_run_series_context(6, Context(6, 1, config, RecordDict(), {}))
        self.state.create_task(TaskType.CLIENT_APP, 6, ended.fab_hash)
        message = Message(RecordDict(), dst_node_id=1, message_type="query")
        message.metadata.__dict__["_run_id"] = 6
        message.metadata.__dict__["_message_id"] = message.object_id
        self.state.object_store.preregister(6, get_object_tree(message))
        self.state.store_message(message)

    def reply(self) -> Message:
        """What the node would send to the SuperLink now."""
        found: list[Message] = self.state.get_messages_legacy(is_reply=True)
        assert len(found) == 1
        return found[0]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    town = make_town(tmp_path, secure_aggregation=False)
    # A message of a run, as a ServerApp makes it.
    for name, value in (("_run_id", 7), ("_node_id", 2), ("_task_id", 3)):
        monkeypatch.setattr(TaskIdentity, name, value)
    factory, port = NodeStateFactory(ObjectStoreFactory()), free_ports(1)[0]
    app = create_app(state_factory=factory, superexec_auth_secret=SECRET)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for_port(port, 120)
    state = factory.state()
    state.set_node_id(1)
    ask = Ask(Columns(), 1, town.agreed.fingerprint, "fedfair", training="one")
    yield Node(state, port, town.settings("silo0"), ask)
    server.should_exit = True
    thread.join(10)


def work(node: Node) -> None:
    runtime = Runtime(node.port, SECRET)
    deadline = time.monotonic() + 120
    while not (kind := runtime.claim()):
        assert time.monotonic() < deadline
    with runtime.alive():
        work_on(runtime, kind, own_digest())
    assert runtime.claim() == ""
    runtime.client.close()


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_a_question_of_fairsilos_own_app_is_answered(node: Node, late: float) -> None:
    """Also where the worker is quicker than the node, whose tasks come before their messages."""
    asked = node.receive(OWN, late=late)
    work(node)
    reply = node.reply()
    assert reply.metadata.reply_to_message_id == asked
    stored = node.state.object_store.get(reply.metadata.message_id)
    assert stored
    tree = node.state.object_store.get_object_tree(reply.metadata.message_id)
    assert tree.children
    # What must be remembered is the node's now.
    assert "fairsilo" in node.state.get_run_series_context(0).state.config_records


@pytest.mark.parametrize(
    ("files", "kind", "told"),
    [
        (ROBBER, TaskType.CLIENT_APP, "of which nothing was run"),
        (ROBBER, TaskType.AGENT_APP, "of which nothing was run"),
        (OWN, TaskType.AGENT_APP, NO_QUESTION),
    ],
)
def test_all_else_is_refused_in_the_log_and_to_the_server(
    node: Node,
    files: dict[str, bytes],
    kind: str,
    told: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node.receive(files, kind)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    work(node)
    assert "fairsilo: refused: this silo answers" in caplog.text
    assert told in caplog.text
    reply = node.reply()
    assert reply.metadata.message_id
    assert node.state.get_run_series_context(0).state.config_records == {}
    content = node.state.object_store.get(reply.metadata.message_id)
    assert told.encode() in content
    # That left, too.
    (line,) = left.read(read_settings(node.settings).left)
    assert told in line["refused"]
    assert (line["kind"], line["run"]) == ("app", "7")


@pytest.mark.slow
def test_a_question_that_never_comes_whole_holds_nobody_up(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    node.lose()
    runtime = Runtime(node.port, SECRET)
    kind = runtime.claim()
    sent: list[str] = []
    # The node goes on with the next one while the worker waits for the rest of the first.
    timer = threading.Timer(1.5, lambda: sent.append(node.receive(OWN)))
    timer.start()
    work_on(runtime, kind, own_digest())
    assert "a question never came whole" in caplog.text
    assert not node.state.get_messages_legacy(is_reply=True)
    work_on(runtime, runtime.claim(), own_digest())
    assert node.reply().metadata.reply_to_message_id == sent[0]
    assert runtime.claim() == ""
    runtime.client.close()


def test_a_pause_between_a_task_and_its_message_is_told_to_the_program(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node took the worker for dead, has no error for a message that nobody fetched, and gives
    the task to nobody else: it would wait for ever."""
    node.receive(OWN)
    runtime = Runtime(node.port, SECRET)
    given = runtime.client.PullTaskInput

    def pause(request: Any) -> Any:
        answer = given(request)
        for claim in node.state.task_token_store.values():
            claim.active_until -= timedelta(minutes=2)
        assert not node.state.get_messages_legacy(is_reply=True)
        return answer

    monkeypatch.setattr(runtime.client, "PullTaskInput", pause)
    with pytest.raises(SystemExit) as ended:
        serve(runtime, own_digest())
    assert ended.value.code == STUCK
    assert runtime.claim() == ""
    runtime.client.close()


def test_without_the_secret_nothing_can_be_claimed(node: Node) -> None:
    node.receive(OWN)
    stranger = Runtime(node.port, b"another secret")
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        stranger.claim()
    stranger.client.close()
    work(node)


def test_the_task_of_a_worker_that_was_killed_is_given_up_by_the_next_one(
    node: Node, tmp_path: Path
) -> None:
    """Else the server would wait a minute: without the file nothing is given up."""
    asked = node.receive(OWN)
    claimed = tmp_path / "claimed"
    first = Runtime(node.port, SECRET, claimed)
    first.content(first.fetch(first.claim()))
    assert claimed.stat().st_mode & 0o777 == 0o600
    first.client.close()
    blind = Runtime(node.port, SECRET)
    assert not blind.give_up()
    assert not node.state.get_messages_legacy(is_reply=True)
    blind.client.close()
    second = Runtime(node.port, SECRET, claimed)
    assert second.give_up()
    reply = node.reply()
    assert reply.metadata.reply_to_message_id == asked
    content = node.state.object_store.get(reply.metadata.message_id)
    assert b"the worker was lost" in content
    assert not claimed.exists()
    assert not second.give_up()
    # The next question is answered as ever, and leaves nothing to give up.
    node.state.delete_messages(message_ids=[reply.metadata.message_id, asked])
    node.receive(OWN)
    work_on(second, second.claim(), own_digest())
    assert node.reply().metadata.reply_to_message_id
    assert not claimed.exists()
    second.client.close()


def test_a_node_that_is_new_itself_is_told_nothing(node: Node, tmp_path: Path) -> None:
    node.receive(OWN)
    claimed = tmp_path / "claimed"
    first = Runtime(node.port, SECRET, claimed)
    first.fetch(first.claim())
    claimed.write_text(claimed.read_text().replace(first.token.value, "another"))
    first.client.close()
    second = Runtime(node.port, SECRET, claimed)
    assert second.give_up()
    assert not claimed.exists()
    assert not node.state.get_messages_legacy(is_reply=True)
    second.client.close()
