"""What the SuperLink itself knows, asked over loopback: its nodes, and how a run stands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.internals import CONTROL, expect_names
from fairsilo.network.ops.keys import silo_names
from fairsilo.network.ops.workspace import Workspace

PATIENCE = 2
"""Flower takes a node for gone after so many of its heartbeats did not come."""


@dataclass(frozen=True)
class Node:
    """A silo as the SuperLink sees it."""

    online: bool
    seen: float
    """When it was heard of last, in seconds since 1970; 0: never."""


def nodes(space: Workspace) -> dict[str, Node]:
    """The registered silos by name."""
    named = silo_names(space.agreed)
    with _client(space) as client:
        from flwr.proto.control_pb2 import ListNodesRequest

        found = client.ListNodes(ListNodesRequest()).nodes_info
    known: dict[str, Node] = {}
    for node in found:
        name = named(node)
        if name is not None and node.status != "unregistered":
            # Said nowhere: it counts as online until this long after its last heartbeat.
            seen = node.online_until - PATIENCE * node.heartbeat_interval
            known[name] = Node(node.status == "online", max(seen, 0.0))
    return known


def run_ended(space: Workspace, run: str) -> str:
    """How a run ended for the SuperLink: completed, stopped, failed; nothing while it goes on."""
    with _client(space) as client:
        from flwr.proto.control_pb2 import ListRunsRequest

        found = client.ListRuns(ListRunsRequest(run_id=int(run))).run_dict
    return str(found[int(run)].status.sub_status) if int(run) in found else ""


@contextlib.contextmanager
def _client(space: Workspace) -> Iterator[Any]:
    expect_names(CONTROL)
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    client = ControlHttpClient.from_server_address(
        server_address=space.control,
        insecure=False,
        root_certificates=(space.certificates / CA).read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
    )
    try:
        yield client
    except httpx.HTTPError as error:
        raise FairSiloError(
            f"the SuperLink at {space.control} does not answer ({type(error).__name__}): look at "
            "its output"
        ) from None
    finally:
        client.close()
