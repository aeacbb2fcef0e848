"""What a SuperNode received, claimed and answered through its Runtime API on loopback.

Flower's own way is a process that unpacks the app that came and runs it. Here the app is bytes.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, message_from_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TASK_TOKEN_HEADER, TaskType
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    pull_and_inflate_object_from_tree,
)
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import push_message, push_task_output

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network.ops import whole
from fairsilo.network.ops.internals import FIRST_WAIT
from fairsilo.network.ops.parent import STUCK

CLAIM = "/flwr.proto.Runtime/AcquireTask"
CLAIMED = (TaskType.CLIENT_APP, TaskType.AGENT_APP)
"""All that a message to a node can become. The second kind is claimed to be refused: nobody's
task, it would keep the node waiting for ever."""
BEAT = 10.0
"""Seconds between signs of life; after 60 without one the node takes a worker for dead."""
LONGEST_WAIT = 10.0
"""Seconds that a message may take to lie ready after its task."""
PARTS = 1.0
"""Seconds that are waited for a message's parts before the node is asked for another task."""


class Overtaken(Exception):
    """The node gave up on the message at work, whose parts never came: it has another one."""


@dataclass(frozen=True)
class Work:
    """A claimed task: what came with it, and what it is to be answered with."""

    kind: str
    app: bytes
    """The bundle that came. It is hashed, and nothing else."""
    context: Context
    head: Message
    """The message without its content."""
    parts: ObjectTree


class Token:
    """Sends the token of the task at work with every request."""

    def __init__(self) -> None:
        self.value = ""

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        """As Flower's client calls it."""
        if self.value:
            context.request.headers[TASK_TOKEN_HEADER] = self.value
        response: httpx.Response = call_next(context)
        return response


class Runtime:
    """The API of the SuperNode on a port of this machine; one connection, one task at a time.

    `claimed`: a file by which the next worker can give up the task of one that was killed.
    """

    def __init__(self, port: int, secret: bytes, claimed: Path | None = None) -> None:
        self.token = Token()
        self.ahead = ""
        self.claimed = claimed
        self.client = RuntimeHttpClient.from_server_address(
            server_address=f"127.0.0.1:{port}",
            insecure=True,
            root_certificates=None,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperExec"),
                SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={CLAIM}),
                self.token,
            ],
        )
        whole.carry(self.client)

    def claim(self) -> str:
        """The kind of the task that is now this worker's; nothing where there is none."""
        if self.ahead:
            kind, self.ahead = self.ahead, ""
            return kind
        self.token.value = ""
        found = self.client.AcquireTask(AcquireTaskRequest(supported_task_types=CLAIMED))
        self.token.value = found.token
        return str(found.task.type) if found.token else ""

    def fetch(self, kind: str) -> Work:
        """What came with the claimed task, but for the message's content."""
        given = self.client.PullTaskInput(PullTaskInputRequest())
        deadline = time.monotonic() + LONGEST_WAIT
        # The task is there a moment before its message.
        while not (found := self._messages()).messages_list:
            if time.monotonic() > deadline:
                raise FairSiloError("a task came without a message")
            time.sleep(FIRST_WAIT)
        head = message_from_proto(found.messages_list[0])
        context = context_from_proto(given.context)
        self._keep(found.messages_list[0].SerializeToString(), context.node_id)
        return Work(kind, given.fab.content, context, head, found.message_object_trees[0])

    def _messages(self) -> Any:
        try:
            return self.client.PullMessages(PullAppMessagesRequest())
        except httpx.HTTPStatusError as error:
            # After a pause of a minute the task is not this worker's any more. The node makes no
            # reply for a message that nobody fetched, and would wait for one for ever.
            raise SystemExit(STUCK) from error

    def content(self, work: Work) -> Message:
        """The message with its content, waited for until the node has another task."""
        where = Node(node_id=work.context.node_id), work.context.run_id
        pull = make_pull_object_fn_protobuf(self.client.PullObject, *where)
        confirm = make_confirm_message_received_fn_protobuf(
            self.client.ConfirmMessageReceived, *where
        )
        while True:
            try:
                message = pull_and_inflate_object_from_tree(
                    work.parts,
                    pull,
                    confirm,
                    return_type=Message,
                    max_time=PARTS,
                    initial_backoff=FIRST_WAIT,
                    backoff_cap=PARTS / 4,
                )
                break
            except ObjectPullError:
                self._look_ahead()
        # Its own name is not part of what travelled.
        message.metadata.__dict__["_message_id"] = work.parts.object_id
        return message

    def _look_ahead(self) -> None:
        """Let go of the task at work where the node has another one.

        A node asks for its next message after the last one was answered, or when it gave up on it:
        the run ended meanwhile. Such a task it forgets without a word. No reply must be left for
        it: the node would take it for that to the next message.
        """
        held, kind = self.token.value, self.claim()
        following, self.token.value = self.token.value, held
        if kind:
            self._forget()
            try:
                push_task_output(self.client, None, SubStatus.FAILED, "its message never came")
            finally:
                self.token.value, self.ahead = following, kind
            raise Overtaken

    def _keep(self, head: bytes, node: int) -> None:
        """Write down what is needed to give the task up; as well guarded as the secret beside."""
        if self.claimed is not None:
            kept = {"token": self.token.value, "head": head.hex(), "node": node}
            write_atomic(self.claimed, json.dumps(kept).encode(), 0o600)

    def _forget(self) -> None:
        # Before a reply is handed over: a second one would be taken for that to the next message.
        if self.claimed is not None:
            self.claimed.unlink(missing_ok=True)

    def give_up(self) -> bool:
        """Reply with an error to what a worker before this one had claimed; whether there was any.

        Else the server would learn of it a minute later, when the node misses signs of life.
        """
        if self.claimed is None or not self.claimed.exists():
            return False
        kept = json.loads(self.claimed.read_bytes())
        head = message_from_proto(ProtoMessage.FromString(bytes.fromhex(kept["head"])))
        context = Context(head.metadata.run_id, kept["node"], {}, RecordDict(), {})
        self._forget()
        self.token.value = kept["token"]
        # Where the node, too, is a new one, it knows nothing of the task.
        with contextlib.suppress(httpx.HTTPError):
            self._reply(head, context, ErrorCode.CLIENT_APP_CRASHED, "the worker was lost")
        return True

    def answer(self, work: Work, reply: Message) -> None:
        """Hand the reply and what is to be remembered to the node, which sends the reply."""
        self._forget()
        self._push(reply, work.context)
        push_task_output(self.client, work.context, SubStatus.COMPLETED, "")

    def refuse(self, work: Work, code: int, why: str) -> None:
        """Reply with an error; nothing is remembered."""
        self._forget()
        self._reply(work.head, work.context, code, why)

    def _reply(self, head: Message, context: Context, code: int, why: str) -> None:
        self._push(Message(Error(code, why), reply_to=head), context)
        push_task_output(self.client, None, SubStatus.FAILED, why)

    def _push(self, reply: Message, context: Context) -> None:
        whole.stage(reply)
        push_message(self.client, reply, context)

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Signs of life while a long answer is computed."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(BEAT):
                with contextlib.suppress(httpx.HTTPError):
                    self.client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
