"""Messages that travel with all their parts: two requests to the SuperLink where Flower makes nine.

Flower sends the head of a message first, then each of its parts (message, record, values) with a
request of its own, and confirms. Here they lie in the head's own field `content`, which Flower
leaves empty, and are taken out again before Flower's code sees the head. A part counts only where
its SHA-256 is the name by which the head's tree of parts knows it. Whatever is missing, too large
or not what its name says, and whatever a stock SuperLink or SuperNode sends, is fetched or sent in
Flower's own way.

    ServerApp (carry) - SuperLink (serve) - SuperNode (carry, serve) - worker (carry)
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

MARK = "fairsilo-whole"
"""Asks for whole messages, as one of the names in a pull. Flower's handlers do not look at these,
but for the SuperLink's to its ServerApp, which `VARIABLE` is for."""
VARIABLE = "FAIRSILO_WHOLE"
"""Set by a SuperLink that serves whole messages, for the ServerApps that it starts."""
FIELD = "parts"
LARGEST = 16 * 2**20
"""Bytes of all parts in one request or answer."""
HOLD = 1.0
"""Seconds that a pull waits for something to come: short, because a node that is killed meanwhile
may be handed one more message."""
MOST = 24
"""Pulls that wait at once, each in one of the forty threads that Flower's server has."""
KNOWN = 10_000
"""Names that are remembered: a silo may make some up."""


@dataclass
class Bag:
    """The parts that this process has at hand, and whether the other side takes them."""

    parts: dict[str, bytes] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Messages that came with all parts: there is nothing to confirm."""
    taken: bool = False
    held: bool = False
    """Whether the last pull was held until something came, or for HOLD seconds."""


BAG = Bag()


def attach(messages: Iterable[Any], trees: Iterable[Any], get: Callable[[str], Any]) -> list[Any]:
    """Put the parts that `get` knows into the messages; those that are now whole."""
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    room, sent, whole = LARGEST, set[str](), []
    for message, tree in zip(messages, trees, strict=True):
        names = [one.object_id for one in iterate_object_tree(tree)]
        parts = {name: get(name) for name in names if name not in sent}
        room -= sum(len(part or b"") for part in parts.values())
        if room < 0 or not all(parts.values()):
            continue
        items = message.content.items.add(key=FIELD).config_record.items
        for name, part in parts.items():
            items.add(key=name).value.bytes = part
        sent.update(parts)
        whole.append(message)
    return whole


def detach(messages: Iterable[Any]) -> dict[str, bytes]:
    """Take the parts out of messages; those that are not what their names say are dropped."""
    found: dict[str, bytes] = {}
    for message in messages:
        for record in message.content.items:
            if record.key == FIELD:
                found |= {one.key: one.value.bytes for one in record.config_record.items}
        del message.content.items[:]
        if message.HasField("error"):
            message.ClearField("content")
    return {n: part for n, part in found.items() if hashlib.sha256(part).hexdigest() == n}


def stage(message: Any) -> None:
    """Have the parts of a message at hand that is about to be pushed."""
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        no_object_id_recompute,
    )

    if BAG.taken:
        with no_object_id_recompute():
            BAG.parts |= {n: one.deflate() for n, one in get_all_nested_objects(message).items()}


def carry(client: Any, *, taken: bool = False) -> None:
    """Let a client of Flower's, or a class of them, take whole messages, and send them where the
    other side does.

    `taken`: it is known to. Else it is from the first whole message on.
    """
    from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

    BAG.taken = taken

    def pull_messages(ask: Any, *to: Any) -> Any:
        request = to[-1]
        if MARK not in request.message_ids:
            request.message_ids.append(MARK)
        BAG.parts.clear()
        BAG.whole.clear()
        response = ask(*to)
        BAG.held = hasattr(response, "reconnect") and response.HasField("reconnect")
        BAG.parts |= detach(response.messages_list)
        for tree in response.message_object_trees:
            if all(one.object_id in BAG.parts for one in iterate_object_tree(tree)):
                BAG.whole.add(tree.object_id)
                BAG.taken = True
        return response

    def pull_object(ask: Any, *to: Any) -> Any:
        part = BAG.parts.get(to[-1].object_id)
        if part is None:
            return ask(*to)
        return PullObjectResponse(object_found=True, object_available=True, object_content=part)

    def confirm(ask: Any, *to: Any) -> Any:
        if to[-1].message_object_id not in BAG.whole:
            return ask(*to)
        return ConfirmMessageReceivedResponse()

    def push_messages(ask: Any, *to: Any) -> Any:
        request = to[-1]
        # Not when it is sent again.
        if BAG.taken and not any(one.content.items for one in request.messages_list):
            attach(request.messages_list, request.message_object_trees, BAG.parts.get)
        return ask(*to)

    _wrap(client, "PullMessages", pull_messages)
    _wrap(client, "PullObject", pull_object)
    _wrap(client, "ConfirmMessageReceived", confirm)
    _wrap(client, "PushMessages", push_messages)


def carry_grid(grid: Any) -> None:
    """Let a ServerApp do so, where the SuperLink that started it does."""
    if os.environ.get(VARIABLE) and hasattr(grid, "_try_push_messages"):

        def push(send: Any, run: int, messages: Any) -> Any:
            for message in messages:
                stage(message)
            return send(run, messages)

        carry(grid._runtime_client, taken=True)
        _wrap(grid, "_try_push_messages", push)


def serve_superlink() -> None:
    """Let a SuperLink in this process do so, and the ServerApps that it starts."""
    from flwr.superlink.servicer.fleet import fleet_handlers
    from flwr.superlink.servicer.runtime import runtime_handlers

    news = News()
    serve(fleet_handlers, news)
    serve(runtime_handlers, news)
    os.environ[VARIABLE] = "1"


def serve_supernode() -> None:
    """Let a SuperNode in this process do so, on both sides."""
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.servicer.runtime import runtime_handlers

    carry(FleetHttpClient)
    serve(runtime_handlers, passes_on=True)


class News:
    """What has come for whom, so that a pull need not look: nodes by number, replies by name."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.turn = threading.Lock()
        """One request at a time: all that wait wake at once, and a database that many write to at
        once makes each of them sleep, or fail."""
        self.come: Counter[Hashable] = Counter()
        self.waiting = 0

    def tell(self, names: Iterable[Hashable]) -> None:
        """Something came for these."""
        with self.changed:
            if len(self.come) > KNOWN:
                self.come.clear()
            self.come.update(names)
            self.changed.notify_all()

    def wait(self, names: Collection[Hashable]) -> dict[Hashable, int] | None:
        """How much came for each, at the latest after HOLD; None where too many wait already."""
        with self.changed:
            if self.waiting >= MOST:
                return None
            self.waiting += 1
            try:
                self.changed.wait_for(lambda: all(self.come[name] for name in names), HOLD)
            finally:
                self.waiting -= 1
            return {name: self.come[name] for name in names}

    def took(self, names: Mapping[Hashable, int]) -> None:
        """So much of it was handed out."""
        with self.changed:
            self.come -= Counter(names)


def serve(handlers: Any, news: News | None = None, *, passes_on: bool = False) -> None:
    """Let handlers of Flower's take in and hand out whole messages.

    `news`: hold a pull until something came for it; `passes_on`: what comes is pushed on by `carry`
    in this process.
    """
    turn = nullcontext() if news is None else news.turn

    def push_messages(answer: Any, request: Any, state: Any, *more: Any, **named: Any) -> Any:
        parts = detach(request.messages_list)
        if passes_on:
            BAG.parts |= parts
        heads = [one.metadata for one in request.messages_list]
        with turn:
            response = answer(request, state, *more, **named)
            missing = [
                name
                for name in response.objects_to_push
                if name not in parts
                or not state.store_object(heads[0].run_id, response.session_id, name, parts[name])
            ]
        del response.objects_to_push[:]
        response.objects_to_push.extend(missing)
        if news is not None:
            news.tell(map(_whom, heads))
        return response

    def pull_messages(answer: Any, request: Any, state: Any, *more: Any, **named: Any) -> Any:
        if MARK not in request.message_ids:
            return answer(request, state, *more, **named)
        request.message_ids.remove(MARK)
        names = [request.node.node_id] if hasattr(request, "node") else list(request.message_ids)
        come = news.wait(names) if news is not None else None
        with turn:
            response = answer(request, state, *more, **named)
            heads = [one.metadata for one in response.messages_list]

            def get(name: str) -> Any:
                return state.get_object(heads[0].run_id, name)

            # Within the turn: a message that is pushed meanwhile may share the parts.
            for message in attach(response.messages_list, response.message_object_trees, get):
                state.object_store.delete(message.metadata.message_id)
        if news is not None and come is not None:
            taken = Counter(map(_whom, heads))
            # Of what is announced and not there, nothing will come.
            news.took({name: taken[name] or count for name, count in come.items()})
            if hasattr(response, "reconnect"):
                response.reconnect.SetInParent()
        return response

    _wrap(handlers, "push_messages", push_messages)
    _wrap(handlers, "pull_messages", pull_messages)


def _whom(head: Any) -> Hashable:
    """For whom a message is: for the ServerApp that waits for a reply, or for a node."""
    return str(head.reply_to_message_id) or int(head.dst_node_id)


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    stock = getattr(owner, name)

    @functools.wraps(stock)
    def wrapped(*args: Any, **named: Any) -> Any:
        return around(stock, *args, **named)

    setattr(owner, name, wrapped)
