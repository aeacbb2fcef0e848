"""A registered silo that fills the SuperLink's memory, or speaks in the server's name."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from sqlalchemy import text
from starlette.exceptions import HTTPException

from fairsilo.network.ops import room
from fairsilo.network.ops.whole import attach
from tests.network.test_whole import Link

PART = 100_000
"""Bytes of what the silo leaves each time."""
TIMES = 20


def reply(question: Message, size: int = PART) -> Message:
    found = Message(
        RecordDict({"x": ConfigRecord({"x": os.urandom(size // 2).hex()})}), reply_to=question
    )
    found.metadata.__dict__["_message_id"] = found.object_id
    return found


def push(link: Link, message: Message, tree_of: Message, *, whole: bool) -> None:
    """Under the head of one message, leave the parts of another; along with it, or one by one."""
    head, tree = message_to_proto(message), get_object_tree(tree_of)
    del head.content.items[:]
    parts = {name: one.deflate() for name, one in get_all_nested_objects(tree_of).items()}
    if whole:
        attach([head], [tree], parts.get)
        # Nothing is hidden behind a second, empty part of the same name.
        for name in parts:
            head.content.items.add(key="decoy").config_record.items.add(key=name).value.bytes = b""
    node = Node(node_id=link.node)
    request = PushMessagesRequest(node=node, messages_list=[head], message_object_trees=[tree])
    told = link.silo.PushMessages(request)
    for name in told.objects_to_push:
        more: Any = {"run_id": link.run, "session_id": told.session_id, "object_id": name}
        link.silo.PushObject(PushObjectRequest(node=node, object_content=parts[name], **more))


def name(of: object) -> str:
    """The name of a part, as Flower makes them."""
    return hashlib.sha256(str(of).encode()).hexdigest()


def lying(link: Link) -> int:
    """Bytes in the SuperLink's store."""
    return sum(len(one.content) for one in link.state.object_store.store.values())


@pytest.mark.parametrize("whole", [True, False])
def test_a_silo_that_leaves_ever_more_is_refused_and_named(
    whole: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One reply may be pushed again and again, each time with other parts."""
    filled = {}
    for most in (room.MOST, 5 * PART):
        monkeypatch.setattr(room, "MOST", most)
        link = Link(True, monkeypatch)
        link.push()
        link.at("server")
        question = link.take()
        first, refused = reply(question), 0
        for _ in range(TIMES):
            try:
                push(link, first, reply(question), whole=whole)
            except HTTPException as error:
                refused += error.status_code == 413
        filled[most] = lying(link), refused
    (free, none), (held, some) = filled.values()
    assert none == 0
    assert free > TIMES * PART, "the attack does not work"
    assert held <= 5 * PART
    assert some > TIMES // 2
    told = f"silo {link.node} has more than 500,000 bytes lying here unread: refused"
    assert told in capfd.readouterr().err


def test_names_of_parts_that_never_come_take_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST", 5 * room.LEAST)
    link = Link(True, monkeypatch)
    link.push()
    question = link.take()
    many = RecordDict({f"{k}": ConfigRecord({"x": k}) for k in range(6)})
    with pytest.raises(HTTPException, match="413"):
        push(link, reply(question), Message(many, reply_to=question), whole=False)
    assert lying(link) == 0


def test_what_was_pulled_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST", 5 * room.LEAST)
    link = Link(True, monkeypatch)
    for _ in range(5):
        sent = link.push()
        link.answer(link.take())
        link.at("server")
        assert len(list(link.grid.pull_messages([sent]))) == 1


def test_a_silo_speaks_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Flower hands its question to another silo, as the server's."""

    def forge(link: Link) -> Message:
        forged = Message(RecordDict(), dst_node_id=link.node, message_type="query", ttl=60.0)
        values = {"_message_id": forged.object_id, "_src_node_id": 1, "_run_id": link.run}
        forged.metadata.__dict__.update(values)
        return forged

    with monkeypatch.context() as open_door:
        open_door.setattr("tests.network.test_whole.limit", lambda handlers: None)
        link = Link(True, open_door)
        forged = forge(link)
        push(link, forged, forged, whole=True)
        assert link.state.get_message_ins(node_id=link.node, limit=1), "the attack does not work"
    link = Link(True, monkeypatch)
    link.push()
    other = reply(link.take())
    other.metadata.__dict__["_src_node_id"] = link.node + 1
    for message in (forge(link), other):
        with pytest.raises(HTTPException, match="no reply of its own"):
            push(link, message, message, whole=True)
    assert not link.state.get_message_ins(node_id=link.node, limit=1)
    assert "sent a message that is no reply of its own: refused" in capfd.readouterr().err


def test_made_up_names_of_questions_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(True, monkeypatch)
    link.push()
    before, answer = dict(link.news.come), reply(link.take(), 10)
    answer.metadata.__dict__["_reply_to_message_id"] = "x" * 100_000
    with pytest.raises(HTTPException, match="no reply of its own"):
        push(link, answer, answer, whole=True)
    assert set(link.news.come) <= set(before)
    node = Node(node_id=link.node)
    with pytest.raises(HTTPException, match="a part without a name"):
        link.silo.PushObject(PushObjectRequest(node=node, run_id=link.run, object_id="x" * 100_000))


@pytest.mark.parametrize("field", ["error", "group_id", "message_type", "tree"])
def test_what_lies_beside_the_parts_is_short(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason, a group or a name of millions of letters, which the SuperLink would keep."""
    free, long = room.HEAD, "query." + "x" * 100_000

    def kept(most: int) -> int:
        monkeypatch.setattr(room, "HEAD", most)
        link = Link(True, monkeypatch)
        link.push()
        answer = reply(link.take(), 10)
        head, tree = message_to_proto(answer), get_object_tree(answer)
        del head.content.items[:]
        if field == "error":
            head.ClearField("content")
            head.error.code, head.error.reason = 7, long
        elif field == "tree":
            tree.children.add(object_id=long)
        else:
            setattr(head.metadata, field, long)
        node = Node(node_id=link.node)
        link.silo.PushMessages(
            PushMessagesRequest(node=node, messages_list=[head], message_object_trees=[tree])
        )
        with link.state.session() as session:
            (row,) = session.execute(text("select * from message_res"))
            return sum(len(one) for one in row if isinstance(one, str | bytes))

    with pytest.raises(HTTPException, match=r"413.*a head of more than 65,536 bytes"):
        kept(free)
    if field != "tree":
        assert kept(10**9) > len(long), "the attack does not work"


def test_one_message_of_a_few_parts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part named often would count once; and Flower takes its time for each of many."""
    link = Link(True, monkeypatch)
    link.push()
    head = message_to_proto(reply(link.take(), 10))
    many = [ObjectTree(object_id=name(k)) for k in range(room.PARTS)]
    trees = {
        "more than 100 parts": ObjectTree(object_id=name("top"), children=many),
        "names a part twice": ObjectTree(object_id=name("top"), children=many[:1] * 2),
    }
    known = len(link.state.object_store.store)

    def send(heads: list[Any], tree: ObjectTree) -> None:
        node, trees = Node(node_id=link.node), [tree] * len(heads)
        link.silo.PushMessages(
            PushMessagesRequest(node=node, messages_list=heads, message_object_trees=trees)
        )

    for why, tree in trees.items():
        with pytest.raises(HTTPException, match=why):
            send([head], tree)
    few = ObjectTree(object_id=name("top"), children=many[:2])
    for heads in ([], [head, head]):
        with pytest.raises(HTTPException, match="other than one message"):
            send(heads, few)
    for k in range(room.PARTS + 1):
        head.content.items.add(key="parts").config_record.items.add(key=name(k))
    with pytest.raises(HTTPException, match="more than 100 parts"):
        send([head], few)
    assert len(link.state.object_store.store) == known
