"""The ServerApp: waits for the silos, trains or audits over them, and writes the run folder.

It runs beside the SuperLink, on the coordinator's machine. What happens is told line by line in
progress.jsonl in the run folder, which `fairsilo flower run` follows.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fairsilo.auditor import write
from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Aggregate, Plain
from fairsilo.network.audit import audit, audit_columns
from fairsilo.network.engine import Network
from fairsilo.network.federation_file import FederationFile, read_federation_file
from fairsilo.network.journal import Journal
from fairsilo.network.ops.internals import shorten_pulls
from fairsilo.network.ops.keys import silo_names
from fairsilo.network.ops.launch import PROGRESS
from fairsilo.network.private_engine import PrivateNetwork
from fairsilo.network.secure import Secure
from fairsilo.network.train import train_over
from fairsilo.network.transport import GridTransport, Patient, Transport
from fairsilo.run import load, save

JOURNAL = "journal"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Coordinate one run as its configuration says."""
    config = context.run_config
    out = Path(str(config["out"]))
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress(out / PROGRESS)
    progress.say({"event": "started", "pid": os.getpid()})
    try:
        # Where Flower has changed, its own waits stay.
        with contextlib.suppress(FairSiloError):
            shorten_pulls()
        agreed = read_federation_file(Path(str(config["federation"])))
        post = transport_for(agreed, grid, bool(config["simulation"]))
        _coordinate(agreed, post, str(context.run_id), config, out, progress.say)
    except FairSiloError as error:
        progress.say({"event": "failed", "why": str(error)})
        raise
    except BaseException as error:
        progress.say({"event": "failed", "why": f"an unexpected error, {type(error).__name__}"})
        raise
    progress.say({"event": "finished"})


def _coordinate(
    agreed: FederationFile,
    post: Transport,
    run: str,
    config: Any,
    out: Path,
    say: Callable[[dict[str, Any]], None],
) -> None:
    silos = wait_for_silos(agreed, post, float(config["wait"]), say)
    gather = aggregate_for(agreed, Patient(post, say), run, float(config["timeout"]))
    if config["audit"] or config["columns"]:
        found = (
            audit(agreed, gather, silos, load(Path(str(config["audit"]))))
            if config["audit"]
            else audit_columns(agreed, gather, silos, str(config["columns"]))
        )
        write(found, out)
        return
    journal = Journal(out / JOURNAL, agreed.fingerprint, bool(config["resume"]))
    engine = engine_for(agreed)(agreed, gather, journal, silos, say)
    save(train_over(agreed, engine, bool(config["baseline"])), out)
    journal.clear()


def engine_for(agreed: FederationFile) -> type[Network]:
    """A private run asks for other sums."""
    return Network if agreed.dp is None else PrivateNetwork


def transport_for(agreed: FederationFile, grid: Grid, simulated: bool) -> GridTransport:
    """Nodes are silos by their keys; those of Flower's simulation, without keys, by their turn."""
    if not simulated:
        return GridTransport(grid, silo_names(agreed))
    turn = dict(zip(sorted(map(int, grid.get_node_ids())), agreed.names, strict=False))
    return GridTransport(grid, lambda node: turn.get(int(node.node_id)), simulated=True)


def aggregate_for(agreed: FederationFile, post: Transport, run: str, timeout: float) -> Aggregate:
    """Behind masks, or in the clear where the federation file says so."""
    if agreed.secure_aggregation:
        return Secure(post, agreed, run, timeout)
    return Plain(post, timeout)


def wait_for_silos(
    agreed: FederationFile,
    post: Transport,
    seconds: float,
    say: Callable[[dict[str, Any]], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """The silos that take part: all of the federation file, or those there when time is up."""
    deadline = time.monotonic() + seconds
    seen = -1
    while True:
        present = post.present()
        if len(present) != seen:
            seen = len(present)
            say({"event": "waiting", "silos": seen, "of": len(agreed.silos)})
        if seen == len(agreed.silos) or time.monotonic() >= deadline:
            break
        sleep(0.5)
    if len(present) < agreed.minimum_silos:
        absent = sorted(set(agreed.names) - set(present))
        raise FairSiloError(
            f"{len(present)} of at least {agreed.minimum_silos} silos are connected, absent are "
            f"{', '.join(absent)}: start their nodes"
        )
    return tuple(name for name in agreed.names if name in present)


class Progress:
    """Lines of JSON, flushed one by one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)

    def say(self, event: dict[str, Any]) -> None:
        """Append a line."""
        with self.path.open("a") as stream:
            stream.write(json.dumps({**event, "time": time.time()}) + "\n")
