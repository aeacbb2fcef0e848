"""How questions reach the silos and answers come back: Flower's grid with a poll of our own.

`send_and_receive` of Flower waits three seconds between looks; a round would take half as long
again. Whatever goes wrong with a silo becomes a `Fault` in one sentence, never a missing summand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.pace import pause
from fairsilo.network.wire import RECORD, Record

POLL = 0.25
"""At most so many seconds pass between two looks for answers."""
AGAIN = 3.0
"""Seconds until a silo that waits for its owner's approval is asked again."""
APPROVAL = 24 * 3600.0
"""Seconds that a run waits for it."""
REFUSED = 7
"""Flower's error code where a silo refused the app."""
LONGEST = 400
"""Characters that are read of a silo's reason."""
LARGEST = 256 * 2**20
"""Bytes of the largest answer that is read at all."""


@dataclass(frozen=True)
class Fault:
    """A silo that gave no usable answer, and why."""

    why: str
    gone: bool = False
    """Whether nothing came at all: the silo may come back and answer."""


@dataclass
class Traffic:
    """Bytes of questions sent and of answers received, all silos together."""

    down: int = 0
    up: int = 0
    exchanges: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.down + other.down, self.up + other.up, self.exchanges + other.exchanges)

    def since(self, before: Traffic) -> Traffic:
        """What came after `before`."""
        return Traffic(
            self.down - before.down, self.up - before.up, self.exchanges - before.exchanges
        )


class Transport(Protocol):
    """Brings a record to each of some silos and brings back what they answer."""

    traffic: Traffic

    def present(self) -> tuple[str, ...]:
        """The silos of the federation file that are connected."""

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        """One record to each named silo; an answer or a fault for each."""


class GridTransport:
    """The post over Flower's grid; `names` maps a node to its silo.

    `simulated`: in Flower's own simulation any node plays any silo, so a question says which one,
    as the group of its message.
    """

    def __init__(
        self,
        grid: Any,
        names: Callable[[Any], str | None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        simulated: bool = False,
    ) -> None:
        self.grid, self.names, self.clock, self.sleep = grid, names, clock, sleep
        self.simulated = simulated
        self.traffic = Traffic()
        self.nodes: dict[str, int] = {}

    def present(self) -> tuple[str, ...]:
        """The silos whose nodes are connected now."""
        found = ((self.names(node), int(node.node_id)) for node in self.grid.get_nodes())
        self.nodes = {name: node for name, node in found if name is not None}
        return tuple(sorted(self.nodes))

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        """Push, then poll until every silo answered or the time is over."""
        from flwr.app import ConfigRecord, Message, RecordDict

        results: dict[str, Record | Fault] = {
            name: Fault("is not connected", gone=True) for name in letters if name not in self.nodes
        }
        asked = [name for name in letters if name in self.nodes]
        messages = [
            Message(
                RecordDict({RECORD: ConfigRecord(dict(letters[name]))}),
                dst_node_id=self.nodes[name],
                message_type="query",
                ttl=timeout,
                group_id=name if self.simulated else None,
            )
            for name in asked
        ]
        self.traffic.exchanges += 1
        self.traffic.down += sum(size_of(letters[name]) for name in asked)
        waiting: dict[str, str] = {}
        for name, sent in zip(asked, self._push(messages), strict=True):
            if sent:
                waiting[sent] = name
            else:
                results[name] = Fault("could not be sent the question", gone=True)
        began = self.clock()
        deadline = began + timeout
        while waiting and (looked := self.clock()) < deadline:
            for message in self.grid.pull_messages(list(waiting)):
                name = waiting.pop(message.metadata.reply_to_message_id, "")
                if name:
                    results[name] = self._open(message, timeout)
            if waiting:
                # A look that waited by itself counts as a pause.
                now = self.clock()
                self.sleep(max(pause(now - began, POLL) - (now - looked), 0.0))
        for name in waiting.values():
            results[name] = _late(timeout)
        return results

    def _push(self, messages: Sequence[Any]) -> Iterable[str]:
        sent = list(self.grid.push_messages(messages))
        return sent if len(sent) == len(messages) else [""] * len(messages)

    def _open(self, message: Any, timeout: float) -> Record | Fault:
        """The record in an answer, or what Flower says went wrong."""
        if message.has_error():
            code = message.error.code
            if code in LATE:
                return _late(timeout)
            if code == REFUSED:
                return Fault(f"refused: {shown(message.error.reason)}")
            return Fault(ERRORS.get(code, f"failed (Flower {code})"), gone=code in GONE)
        records = message.content.config_records
        if RECORD not in records:
            return Fault("answered with something else than a record of fairsilo")
        record: Record = dict(records[RECORD])
        size = size_of(record)
        self.traffic.up += size
        if size > LARGEST:
            return Fault(f"sent {size:,} bytes where at most {LARGEST:,} are read")
        if record.get("refused"):
            record["refused"] = shown(record["refused"])
        return record


def shown(value: object) -> str:
    """A text that another party chose, short and without characters that move a cursor."""
    return "".join(one for one in str(value)[:LONGEST] if one.isprintable())


class Patient:
    """Asks silos again that wait for their owners' approval; `say` is told who they are."""

    def __init__(
        self,
        post: Transport,
        say: Callable[[dict[str, Any]], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.post, self.say, self.clock, self.sleep = post, say, clock, sleep
        self.traffic = post.traffic
        self.busy: set[str] = set()
        """Those whose last answer did not come: they may still be computing it."""

    def present(self) -> tuple[str, ...]:
        """The silos that are connected."""
        return self.post.present()

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        """Every silo's answer or fault; after APPROVAL seconds without a yes, a refusal."""
        found = self._exchange(letters, timeout)
        told: list[str] = []
        deadline = self.clock() + APPROVAL
        while (held := _held(found)) and self.clock() < deadline:
            if held != told:
                self.say({"event": "approval", "silos": held, "busy": sorted(self.busy)})
                told = held
            self.sleep(AGAIN)
            found |= self._exchange({name: letters[name] for name in held}, timeout)
        if told and not held:
            self.say({"event": "approval", "silos": []})
        return found

    def _exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        found = self.post.exchange(letters, timeout)
        self.busy -= found.keys()
        self.busy |= {name for name, one in found.items() if isinstance(one, Fault)}
        return found


def _held(found: Mapping[str, Record | Fault]) -> list[str]:
    return sorted(n for n, one in found.items() if isinstance(one, dict) and one.get("waiting"))


ERRORS = {
    1: "could not load the Flower app (is fairsilo installed there?)",
    2: "failed to load or run the Flower app",
    5: "is no longer connected",
    8: "lost its process while answering",
}
"""What Flower's error codes mean for a silo."""
LATE = (3, 4)
"""Those that say that time is over."""
GONE = (5, 8)
"""And those of a silo that may come back."""


def _late(timeout: float) -> Fault:
    return Fault(f"did not answer within {timeout:g} s", gone=True)


def size_of(record: Record) -> int:
    """Bytes of the values of a record; the frame that Flower adds is not counted."""
    return sum(len(value) if isinstance(value, bytes | str) else 8 for value in record.values())


def need(names: Sequence[str], minimum: int, faults: Mapping[str, Fault]) -> None:
    """Stop where too few silos are left, and say which are gone and why."""
    if len(names) >= minimum:
        return
    gone = "; ".join(f"{name} {fault.why}" for name, fault in sorted(faults.items()))
    raise FairSiloError(
        f"{len(names)} of at least {minimum} silos are left ({gone or 'no other is connected'}): "
        "bring them back and use `resume`"
    )
