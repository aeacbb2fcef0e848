"""The SuperLink over loopback: its nodes, how a run stands; keys and runs that it is told of."""

from __future__ import annotations

import contextlib
import ssl
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.bundle import digest
from fairsilo.network.ops.certificates import CA, ended
from fairsilo.network.ops.internals import CONTROL, expect_names
from fairsilo.network.ops.keys import silo_names
from fairsilo.network.ops.workspace import Workspace
from fairsilo.secagg.keys import read_public_key

PATIENCE = 2
"""Flower takes a node for gone after so many of its heartbeats did not come."""


ANSWER = 60.0
"""Seconds that the SuperLink has for an answer, on a busy machine."""


@dataclass(frozen=True)
class Node:
    """A silo as the SuperLink sees it."""

    online: bool
    seen: float
    """When it was heard of last, in seconds since 1970; 0: never. Of one that is not online: since
    when the SuperLink takes it for gone, at once where it ended, else after its silence."""


def nodes(space: Workspace) -> dict[str, Node]:
    """The registered silos by name."""
    named = silo_names(space.agreed.parties)
    with _client(space) as client:
        from flwr.proto.control_pb2 import ListNodesRequest

        found = client.ListNodes(ListNodesRequest()).nodes_info
    known: dict[str, Node] = {}
    for node in found:
        name = named(node)
        if name is not None and node.status != "unregistered":
            online, seen = node.status == "online", node.online_until
            if online:
                # Said nowhere: it counts as online until this long after its last heartbeat.
                seen -= PATIENCE * node.heartbeat_interval
            known[name] = Node(online, max(seen, 0.0))
    return known


def run_ended(space: Workspace, run: str) -> str:
    """How a run ended for the SuperLink: completed, stopped, failed; nothing while it goes on."""
    with _client(space) as client:
        from flwr.proto.control_pb2 import ListRunsRequest

        found = client.ListRuns(ListRunsRequest(run_id=int(run))).run_dict
    return str(found[int(run)].status.sub_status) if int(run) in found else ""


def register_key(space: Workspace, name: str) -> None:
    """Tell it a silo's public key."""
    member = next(one for one in space.agreed.parties if one.name == name)
    key = read_public_key(name, member.public_key)
    with _client(space) as client:
        from flwr.proto.control_pb2 import RegisterNodeRequest
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        client.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(key), name=name))


def unregister_former(space: Workspace) -> list[str]:
    """Have it refuse the keys that only earlier federation files have; whose they were."""
    known = silo_names(space.agreed.parties)
    former = [silo_names(parties) for parties in space.earlier]
    gone: list[str] = []
    if not former:
        return gone
    with _client(space) as client:
        from flwr.proto.control_pb2 import ListNodesRequest, UnregisterNodeRequest

        for node in client.ListNodes(ListNodesRequest()).nodes_info:
            names = [name for named in former if (name := named(node))]
            if names and known(node) is None and node.status != "unregistered":
                client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
                gone.append(names[0])
    return gone


def start_run(space: Workspace, config: dict[str, Any], simulation: int = 0) -> str:
    """Start the folder's app with its configuration; the run's number.

    `simulation`: the port of a SuperLink without TLS that plays the silos.
    """
    with _client(space, simulation) as client:
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.federation_config_pb2 import SimulationConfig
        from flwr.supercore.fab import Fab

        with warnings.catch_warnings():
            # Of a library that Flower uses.
            warnings.simplefilter("ignore", DeprecationWarning)
            app = build_fab_from_disk(space.app)
        played = SimulationConfig(num_supernodes=len(space.agreed.silos)) if simulation else None
        found = client.StartRun(
            StartRunRequest(
                fab=fab_to_proto(Fab(digest(app), app, {})),
                override_config=user_config_to_proto(config),
                override_federation_config=played,
            )
        )
    if not found.HasField("run_id"):
        raise _refused("the run was not taken")
    return str(found.run_id)


def stop(space: Workspace, run: str) -> None:
    """End a run."""
    with _client(space) as client:
        from flwr.proto.control_pb2 import StopRunRequest

        client.StopRun(StopRunRequest(run_id=int(run)))


class Refused(FairSiloError):
    """The SuperLink answered, and said no."""


def _refused(why: str) -> Refused:
    return Refused(f"the SuperLink refused ({' '.join(why.split()).rstrip('.')}): see its output")


@contextlib.contextmanager
def _client(space: Workspace, simulation: int = 0) -> Iterator[Any]:
    expect_names(CONTROL)
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.error import FlowerError
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    address = f"127.0.0.1:{simulation}" if simulation else space.control
    client = ControlHttpClient(
        f"{'http' if simulation else 'https'}://{address}",
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr")],
        verify=not simulation and ssl.create_default_context(cafile=space.certificates / CA),
        timeout=ANSWER,
    )
    try:
        yield client
    except httpx.HTTPStatusError as error:
        told = FlowerError.from_json(error.response.text)
        why = told.message if told else f"status {error.response.status_code}"
        raise _refused(why) from None
    except httpx.HTTPError as error:
        if over := ended(space.certificates):
            raise FairSiloError("; ".join(over)) from None
        raise FairSiloError(
            f"the SuperLink at {address} does not answer ({type(error).__name__}): look at "
            "its output"
        ) from None
    finally:
        client.close()
