"""Node and worker wake each other; Flower's servers answer as ever without their streams."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.proto.message_pb2 import PullObjectRequest
from flwr.proto.node_pb2 import Node as ProtoNode
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from starlette.middleware.base import BaseHTTPMiddleware

from fairsilo.errors import FairSiloError
from fairsilo.network.ops import internals
from fairsilo.network.ops.bundle import own_digest
from fairsilo.network.ops.layers import PLAIN, thin_layers
from fairsilo.network.ops.runtime import Runtime
from fairsilo.network.ops.wake import VARIABLE, Wake, ends, own_end
from fairsilo.network.ops.worker import LOOK_UNWOKEN, serve
from tests.network.network import wait_until
from tests.network.test_worker import OWN, SECRET, Node, node  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture
def pair() -> Iterator[tuple[Wake, Wake]]:
    one, other = ends()
    with one, other:
        yield Wake(one), Wake(other)


def test_a_byte_wakes_and_waits_for_who_is_not_there_yet(
    pair: tuple[Wake, Wake], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    assert not one.wait(0.01)
    assert not one.heard
    for _ in range(2000):
        other.tell()
    assert one.wait(0.0)
    assert one.heard
    # All of them were one.
    assert not one.wait(0.01)
    monkeypatch.delenv(VARIABLE, raising=False)
    assert own_end() is None


def test_the_node_wakes_its_worker_once_for_a_message(
    pair: tuple[Wake, Wake], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, workers = pair
    pace = internals.Pace(worker=ours)
    pace.sleep(0.5)
    assert workers.wait(0.0)
    pace.sleep(0.5)
    assert not workers.wait(0.0)
    workers.tell()
    # Else it would wait for a minute.
    with monkeypatch.context() as patch:
        patch.setattr(internals, "LOOK_UNWOKEN", 60.0)
        began = time.monotonic()
        pace.sleep(0.5)
        assert time.monotonic() - began < 30
    # The next message.
    pace.sleep(0.5)
    assert workers.wait(0.0)


def test_a_node_waits_longer_for_a_superlink_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    now = 0.0
    clock = SimpleNamespace(sleep=waited.append, monotonic=lambda: now)
    monkeypatch.setattr(internals, "time", clock)
    pace = internals.Pace()
    pace.sleep(3)
    for answered in (0.15, 60.0):
        now += answered
        pace.sleep(3)
    assert waited == [0.1, pytest.approx(0.6), internals.LOOK_NODE]


def test_a_woken_worker_asks_its_node_only_when_there_is_work(
    node: Node,  # noqa: F811
    pair: tuple[Wake, Wake],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes, workers = pair
    asked, ended = [], threading.Event()
    claim = Runtime.claim

    def counted(self: Runtime) -> str:
        if ended.is_set():
            sys.exit()
        found = claim(self)
        asked.append(found)
        return found

    monkeypatch.setattr(Runtime, "claim", counted)
    nodes.tell()
    runtime = Runtime(node.port, SECRET)

    def run() -> None:
        with contextlib.suppress(SystemExit):
            serve(runtime, own_digest(), workers)

    thread = threading.Thread(target=run)
    thread.start()
    # One look at the start and one when it was woken; from then on it waits.
    wait_until(lambda: len(asked) >= 2)
    node.receive(OWN, late=0.0)
    time.sleep(0.2)
    assert asked == ["", ""]
    nodes.tell()
    assert nodes.wait(LOOK_UNWOKEN)
    assert node.reply().metadata.reply_to_message_id
    assert len(asked) == 3
    ended.set()
    nodes.tell()
    thread.join()
    runtime.client.close()


@pytest.fixture
def thin() -> Iterator[None]:
    whole = BaseHTTPMiddleware.__call__
    assert thin_layers()
    yield
    BaseHTTPMiddleware.__call__ = whole  # type: ignore[method-assign]


def _answers(app: Any) -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
    """What both kinds of server say to requests of all sorts, most of them refused."""
    pull = PullObjectRequest(node=ProtoNode(node_id=1), run_id=1, object_id="0" * 64)
    claim = AcquireTaskRequest(supported_task_types=["clientapp"])
    requests = [
        *((path, PROTOBUF_MEDIA_TYPE, pull.SerializeToString()) for path in sorted(PLAIN)),
        ("/v1/runtime/acquire-task", PROTOBUF_MEDIA_TYPE, claim.SerializeToString()),
        ("/v1/runtime/pull-object", "text/plain", b""),
        ("/v1/runtime/pull-object", PROTOBUF_MEDIA_TYPE, b"\xff"),
        ("/v1/control/list-federations", PROTOBUF_MEDIA_TYPE, b""),
        ("/v1/fleet/nothing", PROTOBUF_MEDIA_TYPE, b""),
    ]

    async def ask() -> list[tuple[int, list[tuple[bytes, bytes]], bytes]]:
        door = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=door, base_url="http://here") as client:
            found = [
                await client.post(path, content=body, headers={"content-type": kind})
                for path, kind, body in requests
            ]
        return [(one.status_code, one.headers.raw, one.content) for one in found]

    return asyncio.run(ask())


def test_flowers_servers_answer_as_ever_without_streams(request: pytest.FixtureRequest) -> None:
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.superlink.main import create_app as create_superlink
    from flwr.supernode.main import create_app as create_supernode
    from flwr.supernode.nodestate import NodeStateFactory

    supernode = create_supernode(NodeStateFactory(ObjectStoreFactory()), superexec_auth_secret=None)
    apps = [create_superlink(), supernode]
    before = [_answers(app) for app in apps]
    request.getfixturevalue("thin")
    assert [_answers(app) for app in apps] == before
    # All sorts: answered, refused, not understood.
    assert {200, 401, 404, 415} <= {status for answers in before for status, _, _ in answers}
    assert {("POST", path) for path in PLAIN} <= PROTOBUF_REQUEST_TYPES.keys()


def test_the_superlink_tidies_up_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.supercore.corestate.sql_corestate import SqlCoreState

    done = []
    name = internals.STATE[2]
    monkeypatch.setattr(SqlCoreState, name, getattr(SqlCoreState, name))
    internals.tidy_seldom()

    def tidy(self: Any) -> None:
        done.append(self)

    monkeypatch.setattr(SqlCoreState, name, tidy)
    monkeypatch.setattr(internals, "TIDY_EVERY", 600.0)
    internals.tidy_seldom()
    state: Any = object()
    for _ in range(5):
        getattr(SqlCoreState, name)(state)
    assert len(done) == 1
    monkeypatch.setattr(internals, "TIDY_EVERY", 0.0)
    getattr(SqlCoreState, name)(object())
    assert len(done) == 2
    monkeypatch.setattr(SqlCoreState, name, lambda self, since: None)
    with pytest.raises(FairSiloError, match="has no _cleanup_expired_task_tokens without"):
        internals.tidy_seldom()
