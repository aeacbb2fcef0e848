"""What a silo may leave at the SuperLink: replies in its own name, and only so much at a time.

Flower takes questions from a node, too, and as many parts of messages as it likes to send. They lie
in memory until somebody pulls them or the run ends, so one silo could fill the machine.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from fairsilo.network.ops.internals import expect_room

MOST = 256 * 2**20
"""Bytes that one silo may have lying there: four replies of the largest size, as late ones stay."""
LEAST = 1024
"""Bytes that a part counts for at least: its name and its place take room before it comes."""
PARTS = 100
"""Parts of one message; a reply of fairsilo's has three. Flower takes time for each of them."""
HEAD = 64 * 2**10
"""Bytes of a message beside its parts: who writes to whom, an error, names. A reply of fairsilo's
has less than one thousand; all of it is kept and not counted."""


class Room:
    """Which parts of whom lie in a SuperLink's store."""

    def __init__(self) -> None:
        self.parts: dict[int, dict[str, int]] = {}
        self.turn = threading.Lock()
        """From the count to the end of the push: else two at once would not see each other."""

    def take(self, node: int, sizes: Mapping[str, int], state: Any) -> None:
        """Count these parts as the node's, or refuse them."""
        lying = self.parts.get(node, {})
        lying = {name: size for name, size in lying.items() if name in state.object_store}
        for name, size in sizes.items():
            lying[name] = max(size, LEAST, lying.get(name, 0))
        if sum(lying.values()) > MOST:
            raise _refused(413, node, state, f"has more than {MOST:,} bytes lying here unread")
        self.parts[node] = lying


def limit_silos() -> None:
    """Let a SuperLink in this process take no more than that, or say what is not as expected."""
    expect_room()
    from flwr.superlink.servicer.fleet import fleet_handlers

    limit(fleet_handlers)


def limit(handlers: Any) -> None:
    """Let the handlers of a SuperLink's nodes take no more than that."""
    from flwr.supercore.inflatable.inflatable_object import (
        is_valid_sha256_hash,
        iterate_object_tree,
    )

    room = Room()

    def messages(request: Any, state: Any) -> dict[str, int]:
        node = request.node.node_id
        if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
            raise _refused(403, node, state, "sent other than one message at a time")
        (message,), (tree,) = request.messages_list, request.message_object_trees
        head = message.metadata
        # The name of the question is kept until it is asked for: no other text takes its place.
        if head.src_node_id != node or not is_valid_sha256_hash(head.reply_to_message_id):
            raise _refused(403, node, state, "sent a message that is no reply of its own")
        names = [one.object_id for one in itertools.islice(iterate_object_tree(tree), PARTS + 1)]
        records = message.content.items
        come = [one for record in records for one in record.config_record.items]
        if max(len(names), len(records), len(come)) > PARTS:
            raise _refused(413, node, state, f"sent a message of more than {PARTS} parts")
        if head.ByteSize() + message.error.ByteSize() + tree.ByteSize() > HEAD:
            raise _refused(
                413, node, state, f"sent a message with a head of more than {HEAD:,} bytes"
            )
        sizes = dict.fromkeys(names, 0)
        if len(sizes) < len(names):
            raise _refused(403, node, state, "sent a message that names a part twice")
        for one in come:
            if one.key in sizes:
                # A name may stand there twice.
                sizes[one.key] = max(sizes[one.key], len(one.value.bytes))
        return sizes

    def part(request: Any, state: Any) -> dict[str, int]:
        if not is_valid_sha256_hash(request.object_id):
            raise _refused(403, request.node.node_id, state, "sent a part without a name")
        return {request.object_id: len(request.object_content)}

    for name, sizes in (("push_messages", messages), ("push_object", part)):
        setattr(handlers, name, _within(room, getattr(handlers, name), sizes))


def _within(
    room: Room, stock: Callable[..., Any], sizes: Callable[[Any, Any], dict[str, int]]
) -> Callable[..., Any]:
    @functools.wraps(stock)
    def wrapped(request: Any, state: Any, *more: Any, **named: Any) -> Any:
        found = sizes(request, state)
        with room.turn:
            room.take(request.node.node_id, found, state)
            return stock(request, state, *more, **named)

    return wrapped


def _refused(status: int, node: int, state: Any, why: str) -> Exception:
    """The answer to the node; the same sentence is in the SuperLink's log."""
    from starlette.exceptions import HTTPException

    name = next((one.name for one in state.get_node_info(node_ids=[node])), "") or str(node)
    sentence = f"silo {name} {why}: refused"
    print(f"fairsilo: {sentence}", file=sys.stderr, flush=True)
    return HTTPException(status, sentence)
