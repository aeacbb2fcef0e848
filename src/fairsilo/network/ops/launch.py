"""The processes of a working folder: SuperLink, silos."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.processes import Processes, command, environment, wait_for_port
from fairsilo.network.ops.runs import PATIENCE, controlled, home
from fairsilo.network.ops.workspace import Workspace


def start_superlink(space: Workspace, processes: Processes) -> None:
    """Start the SuperLink of a working folder and the gateway at its address."""
    arguments = [command("fairsilo"), "flower", "superlink", "--folder", str(space.folder)]
    _start_superlink(space, arguments, processes)


def await_superlink(space: Workspace, processes: Processes) -> None:
    """Wait until the SuperLink that was just started is there."""
    deadline = time.monotonic() + PATIENCE
    while not controlled(space):
        if not processes.alive("superlink") or time.monotonic() > deadline:
            raise FairSiloError("the SuperLink did not come up: the end of its log says why")
        time.sleep(0.1)


def start_simulation(space: Workspace, port: int, processes: Processes) -> None:
    """Start a SuperLink of Flower's own simulation (Ray), which plays all silos by itself."""
    arguments = [
        *(command("flower-superlink"), "--insecure", "--simulation"),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]
    _start_superlink(space, arguments, processes)
    wait_for_port(port, PATIENCE)


def _start_superlink(space: Workspace, arguments: Sequence[str], processes: Processes) -> None:
    # Only the start of a run waits for its looks.
    processes.start("superlink", arguments, environment(home(space), look=0.5), space.folder)


def start_node(
    space: Workspace,
    name: str,
    port: int,
    processes: Processes,
    superlink: str | None = None,
    more: Sequence[str] = (),
) -> None:
    """Start the program of one silo, whose settings and key lie in the silo's folder.

    `superlink`: where it finds the SuperLink, if not at the folder's address; `more`: options.
    """
    own = space.silo(name)
    arguments = [
        *(command("fairsilo"), "flower", "silo", "--settings", str(own / "silo.toml")),
        *("--superlink", superlink or space.address, "--port", str(port), *more),
    ]
    processes.start(name, arguments, environment(own / ".flwr"), own)
