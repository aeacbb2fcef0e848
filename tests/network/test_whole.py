"""Messages with all their parts, through the real handlers of a SuperLink and its database."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common.constant import NOOP_FLWR_AID
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    pull_and_inflate_object_from_tree,
)
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import HttpGrid
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers
from flwr.supernode.runtime import run_clientapp

from fairsilo.errors import FairSiloError
from fairsilo.network.ops import internals, whole
from fairsilo.network.ops.gateway import Gateway
from fairsilo.network.ops.internals import Pace
from fairsilo.network.ops.room import limit
from fairsilo.network.ops.whole import Bag, News, attach, carry, carry_grid, detach, serve, stage
from tests.network.network import wait_until

CALLS = {
    "PullMessages": "pull_messages",
    "PushMessages": "push_messages",
    "PullObject": "pull_object",
    "PushObject": "push_object",
    "ConfirmMessageReceived": "confirm_message_received",
}
QUESTION = ConfigRecord({"theta": b"\x01" * 3000, "kind": "round"})


class Link:
    """A SuperLink with one node and one run; its clients' requests are bytes, and counted."""

    def __init__(self, served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        stores = ObjectStoreFactory()
        self.state: Any = LinkStateFactory(":memory:", NoOpFederationManager(), stores).state()
        self.node = self.state.create_node(NOOP_FLWR_AID, "", b"key", 30.0)
        self.state.activate_node(self.node, 30.0)
        more: dict[str, Any] = {"override_config": {}, "federation_config": None}
        self.run = self.state.create_run(
            fab_id=None,
            fab_version=None,
            fab_hash="hash",
            federation_id=NOOP_FEDERATION_ID,
            flwr_aid=NOOP_FLWR_AID,
            primary_task_type=TaskType.SERVER_APP,
            **more,
        )
        self.task = self.state.get_tasks()[0]
        assert self.state.claim_task(self.task.task_id)
        assert self.state.activate_task(self.task.task_id)
        self.asked: Counter[str] = Counter()
        self.one = threading.Lock()
        self.lie: Callable[[Any], None] = lambda response: None
        self.patch = monkeypatch
        for name, value in (("_run_id", self.run), ("_node_id", 1), ("_task_id", 3)):
            monkeypatch.setattr(TaskIdentity, name, value)
        fleet, runtime = (
            SimpleNamespace(**{name: getattr(module, name) for name in CALLS.values()})
            for module in (fleet_handlers, runtime_handlers)
        )
        if served:
            monkeypatch.setenv(whole.VARIABLE, "1")
            self.news = News()
            serve(fleet, self.news)
            serve(runtime, self.news)
            limit(fleet)
        self.bags = {"server": Bag(), "silo": Bag()}
        self.silo = self.client(fleet)
        self.grid = HttpGrid(token="token")
        self.grid._client = self.client(runtime)
        self.grid.set_run(Run.create_empty(self.run))
        self.at("server")
        carry_grid(self.grid)
        self.at("silo")
        carry(self.silo)

    def at(self, side: str) -> None:
        """From now on this is the process of one of them."""
        self.patch.setattr(whole, "BAG", self.bags[side])

    def client(self, handlers: Any) -> Any:
        def calls(name: str) -> Callable[[Any], Any]:
            known = {"state": self.state, "store": self.state.object_store, "task": self.task}

            def ask(request: Any) -> Any:
                self.asked[name] += 1
                handler = getattr(handlers, name)
                taken = inspect.signature(handler).parameters
                more = {key: known[key] for key in known if key in taken}
                copy = type(request).FromString(request.SerializeToString())
                # Parts come from several threads, and this database has one connection.
                with self.one if name.endswith("object") else contextlib.nullcontext():
                    response = handler(copy, **more)
                if name == "pull_messages":
                    self.lie(response)
                return type(response).FromString(response.SerializeToString())

            return ask

        return SimpleNamespace(**{call: calls(name) for call, name in CALLS.items()})

    def push(self) -> str:
        """The server asks."""
        self.at("server")
        content = RecordDict({"fairsilo": QUESTION})
        message = Message(content, dst_node_id=self.node, message_type="query", ttl=60.0)
        (sent,) = self.grid.push_messages([message])
        return sent

    def take(self) -> Message:
        """The silo fetches the question, as a SuperNode does."""
        self.at("silo")
        found = self.silo.PullMessages(PullMessagesRequest(node=Node(node_id=self.node)))
        (tree,) = found.message_object_trees
        # As Flower's code expects it: there, and empty.
        assert found.messages_list[0].HasField("content")
        assert not found.messages_list[0].content.items
        where = Node(node_id=self.node), self.run
        message = pull_and_inflate_object_from_tree(
            tree,
            make_pull_object_fn_protobuf(self.silo.PullObject, *where),
            make_confirm_message_received_fn_protobuf(self.silo.ConfirmMessageReceived, *where),
            return_type=Message,
            max_time=60.0,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def answer(self, question: Message) -> None:
        """The silo answers, with Flower's function for an app's reply."""
        self.at("silo")
        reply = Message(RecordDict({"fairsilo": ConfigRecord({"sum": 7.0})}), reply_to=question)
        stage(reply)

        def push(request: Any) -> Any:
            node = Node(node_id=self.node)
            fields = {name: getattr(request, name) for name in ("messages_list",)}
            trees = request.message_object_trees
            return self.silo.PushMessages(
                PushMessagesRequest(node=node, message_object_trees=trees, **fields)
            )

        client: Any = SimpleNamespace(PushMessages=push, PushObject=self.silo.PushObject)
        context = Context(self.run, self.node, {}, RecordDict(), {})
        run_clientapp.push_message(client, reply, context)


@pytest.mark.parametrize("served", [True, False])
def test_a_question_and_its_answer_take_four_requests_and_else_flowers_own_way(
    served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link(served, monkeypatch)
    sent = link.push()
    question = link.take()
    assert dict(question.content.config_records["fairsilo"]) == dict(QUESTION)
    link.answer(question)
    link.at("server")
    (reply,) = link.grid.pull_messages([sent])
    assert reply.metadata.reply_to_message_id == sent
    assert reply.content.config_records["fairsilo"]["sum"] == 7.0
    whole_way = {"push_messages": 2, "pull_messages": 2}
    own_way = {"push_object": 6, "pull_object": 6, "confirm_message_received": 2}
    assert link.asked == (whole_way if served else {**whole_way, **own_way})
    # Nothing is kept of what was handed out.
    assert len(link.state.object_store) == 0


def test_a_part_that_is_not_what_its_name_says_is_never_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(True, monkeypatch)
    link.push()

    def lie(response: Any) -> None:
        for one in response.messages_list[0].content.items[0].config_record.items:
            one.value.bytes = one.value.bytes.replace(b"round", b"third")

    link.lie = lie
    # The rest is asked for in Flower's own way, and is gone.
    with pytest.raises(ObjectPullError):
        link.take()
    assert link.asked["pull_object"] == 1
    assert b"third" not in b"".join(link.bags["silo"].parts.values())


def test_a_silo_cannot_leave_parts_that_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(True, monkeypatch)
    link.push()
    question = link.take()
    other = Message(RecordDict({"more": ConfigRecord({"x": 1})}), reply_to=question)
    reply = Message(RecordDict(), reply_to=question)
    for one in (other, reply):
        one.metadata.__dict__["_message_id"] = one.object_id
        stage(one)
    head = message_to_proto(Message(RecordDict(), reply_to=question))
    head.metadata.message_id = reply.object_id
    attach([head], [get_object_tree(other)], link.bags["silo"].parts.get)
    node = Node(node_id=link.node)
    trees = [get_object_tree(reply)]
    request = PushMessagesRequest(node=node, messages_list=[head], message_object_trees=trees)
    found = link.silo.PushMessages(request)
    # Only those of the reply itself are asked for, and none of the others is kept.
    assert set(found.objects_to_push) == {one.object_id for one in (reply, reply.content)} - {
        other.content.object_id
    }
    assert link.state.get_object(link.run, other.object_id) is None


def test_what_is_too_large_for_one_request_goes_flowers_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole, "LARGEST", 1000)
    link = Link(True, monkeypatch)
    link.push()
    assert dict(link.take().content.config_records["fairsilo"]) == dict(QUESTION)
    assert link.asked["push_object"] == link.asked["pull_object"] == 3


def test_what_is_handed_out_goes_while_nobody_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two messages may share parts: none goes between a push's look at them and their use."""
    link = Link(True, monkeypatch)
    store, held = link.state.object_store, list[bool]()
    delete = store.delete

    def note(name: str) -> None:
        held.append(link.news.turn.locked())
        delete(name)

    monkeypatch.setattr(store, "delete", note)
    link.push()
    link.take()
    assert held
    assert all(held)


def test_a_pull_is_held_until_something_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "HOLD", 60.0)
    link = Link(True, monkeypatch)
    link.push()
    link.take()

    def push() -> None:
        wait_until(lambda: link.news.waiting)
        # Its own bag is the server's meanwhile; the pull was sent before.
        link.push()

    pushing = threading.Thread(target=push)
    request = PullMessagesRequest(node=Node(node_id=link.node), message_ids=[whole.MARK])
    pushing.start()
    began = time.monotonic()
    response = link.silo.PullMessages(request)
    assert time.monotonic() - began < 30
    assert response.messages_list
    pushing.join()


def test_news_are_for_whom_they_are_and_waiting_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole, "HOLD", 0.05)
    news = News()
    assert news.wait([1]) == {1: 0}
    news.tell([1, 1, "reply"])
    assert news.wait([1, "reply"]) == {1: 2, "reply": 1}
    news.took({1: 1, "reply": 1})
    assert news.come == {1: 1}
    monkeypatch.setattr(whole, "MOST", 0)
    assert news.wait([1]) is None
    monkeypatch.setattr(whole, "KNOWN", 3)
    news.tell(str(i) for i in range(10))
    news.tell(["last"])
    assert news.come == {"last": 1}


def test_a_node_whose_pull_was_held_asks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    now = 0.0
    clock = SimpleNamespace(sleep=waited.append, monotonic=lambda: now)
    monkeypatch.setattr(internals, "time", clock)
    monkeypatch.setattr(whole.BAG, "held", True)
    pace = Pace()
    now += 1.0
    pace.sleep(3)
    assert not waited
    # A server that says so and did not hold it is asked no more often than others.
    pace.sleep(3)
    assert waited[0] >= 0.1


def test_errors_keep_their_form() -> None:
    head = ProtoMessage()
    head.error.code = 2
    head.content.items.add(key=whole.FIELD).config_record.items.add(key="no digest")
    assert detach([head]) == {}
    assert not head.HasField("content")


def test_the_installed_flower_can_be_wrapped_and_another_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    internals.expect_whole()
    module = "flwr.superlink.config_loader"
    loader = __import__(module, fromlist=["x"])
    monkeypatch.setattr(loader, "ObjectStoreFactory", loader.ObjectStoreFactory)
    internals.keep_in_memory()
    assert type(loader.ObjectStoreFactory("superlink.db").store()).__name__ == "InMemoryObjectStore"
    monkeypatch.setattr(fleet_handlers, "push_messages", lambda request: None)
    with pytest.raises(FairSiloError, match=r"push_messages has other arguments"):
        internals.expect_whole()


def test_a_gateway_that_ends_lets_go_of_a_held_pull() -> None:
    async def end() -> list[Any]:
        sent: list[Any] = []
        gateway = Gateway(1, None)  # type: ignore[arg-type]

        async def receive() -> Any:
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"method": "POST", "raw_path": b"/v1/fleet/pull-messages", "query_string": b""}
        more = {"headers": [], "path": "/v1/fleet/pull-messages"}
        task = asyncio.create_task(gateway({**scope, **more}, receive, send))
        await asyncio.sleep(0.05)
        task.cancel()
        await task
        return sent

    head, _ = asyncio.run(end())
    assert head["status"] == 503
